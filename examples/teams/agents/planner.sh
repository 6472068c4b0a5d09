#!/bin/sh
# Reads the prompt from stdin and writes the answer to stdout. The message to answer is at the end of the prompt.
prompt=$(cat)
message=$(printf '%s\n' "$prompt" | sed -n '/^# Message to answer$/,$p' | sed '1,4d')
earlier=$(printf '%s\n' "$prompt" | grep -c '^\[msg-')

printf 'Here is a plan for "%s":\n' "$message"
printf '1. We measure the brook.\n2. We look for wood.\n3. We build.\n'
if [ "$earlier" -gt 1 ]; then
    printf 'I have read the %s messages before yours.\n' "$((earlier - 1))"
fi
printf '[NEXT: Reviewer]\n'
