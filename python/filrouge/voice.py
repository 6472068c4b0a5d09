"""The session store of the voice design: calls that any instance continues (docs/python-voice.md)."""

from filrouge._async.call import AsyncCallLock
from filrouge._async.voice import AsyncVoiceCall, AsyncVoiceSessionStore
from filrouge._shared.calls import (
    VOCAL_RESUME_ALREADY_TERMINATED,
    CallMessage,
    CallTerminated,
    CheckpointPolicy,
    LockTimeout,
)
from filrouge._sync.call import CallLock
from filrouge._sync.voice import VoiceCall, VoiceSessionStore

__all__ = [
    "VOCAL_RESUME_ALREADY_TERMINATED",
    "AsyncCallLock",
    "AsyncVoiceCall",
    "AsyncVoiceSessionStore",
    "CallLock",
    "CallMessage",
    "CallTerminated",
    "CheckpointPolicy",
    "LockTimeout",
    "VoiceCall",
    "VoiceSessionStore",
]
