# sh -s FOLDER LOCK GRACE Waits until no process holds a lock on FOLDER/users, and then for GRACE seconds in which no
# process joins (a file FOLDER/end ends this wait); then ends the servers of FOLDER and removes it.
folder=$1 lock=$2 grace=$3
cd /
trap '' HUP INT

# The process id alone is not enough: the system may have reused it.
runs() { [ -n "$1" ] && grep -qaF -- "$folder/" "/proc/$1/cmdline" 2>/dev/null; }

# Opened, never created: the folder may be under removal. The shell exits if it cannot open a file.
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
# A process that wants to join a folder with a grace period waits during the removal, and then finds it missing.
[ "$grace" -gt 0 ] || exec 8<&-

if [ -e "$folder/data/postmaster.pid" ]; then
    pid=$(head -n 1 "$folder/data/postmaster.pid")
    tries=0
    while runs "$pid"; do
        # A stopped postmaster only reacts to SIGKILL, and its children exit after it.
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
    # Redis processes are identified by their working folder as soon as they exist; none needs a clean shutdown.
    for process in /proc/[0-9]*; do
        case "$(readlink "$process/cwd")" in
            "$folder/redis" | "$folder/redis/"*) kill -KILL "${process#/proc/}" ;;
        esac
    done
fi
rm -rf "$folder"
