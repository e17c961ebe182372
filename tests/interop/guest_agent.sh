#!/bin/sh
# Runs what the host asks for through a virtio serial port. A request is a line "NUMBER SECONDS COMMAND", the command in
# base64; the answer, when the command has ended, a line "NUMBER STATUS OUTPUT", the output (both streams) in base64.
# Requests run beside each other. A command that takes longer than its seconds is ended, its status then is 143.
for name in /sys/class/virtio-ports/*/name; do
    [ "$(cat "$name")" != urnic.agent ] || port=/dev/$(basename "$(dirname "$name")")
done
exec 3<>"$port"
cd /tmp || exit 1
echo "0 0 " >&3
while read -r number seconds command <&3; do
    (
        echo "$command" | base64 -d >"command.$number"
        timeout "$seconds" sh "command.$number" >"output.$number" 2>&1 </dev/null 3<&-
        status=$?
        {
            printf '%s %s ' "$number" $status
            base64 "output.$number" | tr -d '\n'
            echo
        } >"answer.$number"
        # One answer at a time: a long one takes several writes.
        flock lock cat "answer.$number" >&3
        rm -f "command.$number" "output.$number" "answer.$number"
    ) &
done
