#!/bin/sh
# Asks the human about a gap in the plan. The marker `[NEXT: You]` is optional: the turn of the human follows anyway.
prompt=$(cat)
task=$(printf '%s\n' "$prompt" | sed -n '/^# Team task$/,/^# /p' | sed -n '3p')

printf 'The plan does not say what happens when it floods.\n'
if [ -n "$task" ]; then
    printf 'And our task is still: %s\n' "$(printf '%s' "$task" | sed 's/^ *//')"
fi
printf 'What do you think? [NEXT: You]\n'
