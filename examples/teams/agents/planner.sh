#!/bin/sh
# The prompt comes on stdin, the answer goes to stdout. The message to answer is at the prompt's end.
prompt=$(cat)
message=$(printf '%s\n' "$prompt" | sed -n '/^# Message to answer$/,$p' | sed '1,4d')
earlier=$(printf '%s\n' "$prompt" | grep -c '^\[msg-')

printf 'Here is a plan for "%s":\n' "$message"
printf '1. We measure the brook.\n2. We look for wood.\n3. We build.\n'
if [ "$earlier" -gt 1 ]; then
    printf 'I have read the %s messages before yours.\n' "$((earlier - 1))"
fi
printf '[NEXT: Reviewer]\n'
