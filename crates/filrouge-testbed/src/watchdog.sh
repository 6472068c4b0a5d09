# sh -s FOLDER LOCK GRACE
# Waits until no process holds FOLDER/users, and GRACE seconds more in which nobody came (a file FOLDER/end cuts them
# short); then ends the servers of FOLDER and removes it.
folder=$1 lock=$2 grace=$3
cd /
trap '' HUP INT

# A number alone proves nothing: it may belong to another process by now.
runs() { [ -n "$1" ] && grep -qaF -- "$folder/" "/proc/$1/cmdline" 2>/dev/null; }

# Opened, never made: the folder may be going away. A shell ends when it cannot open a file.
while exec 9<"$folder/users"; do
    flock -x 9
    exec 9<&-
    waited=0
    while [ "$waited" -lt "$grace" ] && ! [ -e "$folder/end" ]; do
        sleep 1
        waited=$((waited + 1))
        exec 9<"$folder/users"
        flock -n -x 9 || continue 2
        exec 9<&-
    done
    exec 8<"$lock" 9<"$folder/users"
    flock -x 8
    flock -n -x 9 && break
    exec 8<&- 9<&-
done
# Others may join a folder with a grace: while it goes away they wait, and then find it gone.
[ "$grace" -gt 0 ] || exec 8<&-

if [ -e "$folder/data/postmaster.pid" ]; then
    pid=$(head -n 1 "$folder/data/postmaster.pid")
    tries=0
    while runs "$pid"; do
        # A stopped postmaster hears nothing but SIGKILL, and its children leave once it has gone.
        kill -CONT "$pid"
        if [ "$tries" -lt 150 ]; then kill -QUIT "$pid"; else kill -KILL "$pid"; fi
        sleep 0.1
        tries=$((tries + 1))
    done
fi
if [ -e "$folder/pgbouncer.pid" ]; then
    pid=$(cat "$folder/pgbouncer.pid")
    runs "$pid" && kill -KILL "$pid"
fi
if [ -d "$folder/redis" ]; then
    # Known by where they are from the moment they exist; none of them writes anything that is worth a word of farewell.
    for process in /proc/[0-9]*; do
        case "$(readlink "$process/cwd")" in
            "$folder/redis" | "$folder/redis/"*) kill -KILL "${process#/proc/}" ;;
        esac
    done
fi
rm -rf "$folder"
