# sh -s FOLDER LOCK GRACE
#
# Ends the servers of FOLDER and removes it, once no process has held a lock on FOLDER/users for GRACE seconds. A file
# FOLDER/end skips this grace period. LOCK excludes processes that create or join folders.
folder=$1 lock=$2 grace=$3
cd /
trap '' HUP INT

# Whether process $1 runs in the folder: the system may have given its id to another process.
runs() { [ -n "$1" ] && grep -qaF -- "$folder/" "/proc/$1/cmdline" 2>/dev/null; }

# The file is opened but never created, because the folder may be under removal. The shell exits if it cannot open it.
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
# Without a grace period no process can join. With one, the lock is held during the removal: a process that wants to
# join waits for it, and then finds the folder missing.
[ "$grace" -gt 0 ] || exec 8<&-

if [ -e "$folder/data/postmaster.pid" ]; then
    pid=$(head -n 1 "$folder/data/postmaster.pid")
    tries=0
    while runs "$pid"; do
        # A stopped postmaster must be continued first. After 15 s it is killed; its children then exit by themselves.
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
if [ -d "$folder/redis" ] || [ -d "$folder/opensearch" ] || [ -d "$folder/weaviate" ]; then
    # These processes are identified by their working folder, which they have from their start. They need no clean
    # shutdown.
    for process in /proc/[0-9]*; do
        case "$(readlink "$process/cwd")" in
            "$folder/redis" | "$folder/redis/"* | "$folder/opensearch" | "$folder/weaviate")
                kill -KILL "${process#/proc/}"
                ;;
        esac
    done
fi
rm -rf "$folder"
