/*
 * A disk with configurable faults.
 *
 * Preloaded into a program (LD_PRELOAD), this library intercepts the program's calls on files below one directory. It
 * can record all changes of these files, so that a test can rebuild the content of a disk after a power cut. It can
 * kill or freeze the program at a given call, fake or fail flushes, and report a full disk.
 *
 *   DISK_ROOT=dir           the watched directory (absolute, no symbolic links); if unset, the library has no effect
 *   DISK_RECORD=file        appends a record of every change and flush to this file (see `struct record`)
 *   DISK_FAKE_SYNC=1        flushes report success, do nothing, and are not recorded
 *   DISK_KILL_AT=n          SIGKILL at the n-th point. Every changing call has two points: before it (odd n), and in
 *                           the middle of it (even n). In the middle, a write has stored the first half of its bytes,
 *                           and any other call is complete.
 *   DISK_FREEZE_AT=n        SIGSTOP at the n-th point, which must be one before a call (odd n)
 *   DISK_FAIL_SYNC_AT=n     the n-th flush and all later ones fail with EIO
 *   DISK_FAIL_SYNC_COUNT=k  only k flushes fail; later ones succeed
 *   DISK_SYNC_ONLY=text     only flushes of files with this text in their path are faked or fail
 *   DISK_ENOSPC_AT=bytes    the disk has space for this many bytes; further writes fail with ENOSPC
 *   DISK_ENOSPC_OFF=file    the disk has space again once this file exists
 *   DISK_ARM=file           points, flushes and bytes are counted only while this file exists
 *
 * SQLite's -shm files are ignored: they are shared memory, which a power cut erases. The wrappers make system calls
 * directly, so they never call themselves. Not intercepted are writes through a memory map, io_uring, and system calls
 * without the C library. A test compares the record with the real files, so that such a write is noticed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "file offsets are passed in one register");

/* In the file, each record is followed by `name_len` bytes of names (a NUL separates two), then the data. */
struct record {
    uint64_t op;       /* C create, W write, T set size, R rename, L link, U unlink, B/S/F flush begun/done/failed */
    uint64_t file;     /* inode number; 0 for the flush of a directory, which has a name instead */
    uint64_t at;       /* W: offset; T: size; B, S, F: number that pairs begin and end */
    uint64_t name_len;
    uint64_t data_len;
};

enum { FDS = 1 << 16, UNKNOWN = 0, FOREIGN = 1 }; /* other values in `files`: the inode number of a watched file */
static _Atomic uint64_t files[FDS]; /* by file descriptor */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one order for changes and their records */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char root[PATH_MAX];
static size_t root_len;
static int log_fd = -1, fake_sync;
static uint64_t kill_at, freeze_at, fail_sync_at, fail_sync_count, enospc_at;
static const char *sync_only, *enospc_off, *arm;
static uint64_t points, flushes, bytes, tickets; /* counters, under `lock` */

static uint64_t number(const char *name, uint64_t fallback) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

static void set_up(void) {
    const char *dir = getenv("DISK_ROOT");
    const char *log = getenv("DISK_RECORD");
    if (!dir || strlen(dir) >= sizeof root) return;
    strcpy(root, dir);
    fake_sync = getenv("DISK_FAKE_SYNC") != NULL;
    kill_at = number("DISK_KILL_AT", 0);
    freeze_at = number("DISK_FREEZE_AT", 0);
    fail_sync_at = number("DISK_FAIL_SYNC_AT", 0);
    fail_sync_count = number("DISK_FAIL_SYNC_COUNT", UINT64_MAX);
    sync_only = getenv("DISK_SYNC_ONLY");
    enospc_at = number("DISK_ENOSPC_AT", UINT64_MAX);
    enospc_off = getenv("DISK_ENOSPC_OFF");
    arm = getenv("DISK_ARM");
    if (log) log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    root_len = strlen(root);
}

static int watching(void) {
    pthread_once(&once, set_up);
    return root_len != 0;
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int exists(const char *path) { return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

/* Returns whether points, flushes and bytes are counted now. */
static int armed(void) {
    int error = errno, result = !arm || exists(arm);
    errno = error;
    return result;
}

/* Returns whether a path is below the watched directory, and not SQLite's shared memory. */
static int is_watched(const char *path) {
    size_t len = strlen(path);
    if (strncmp(path, root, root_len) != 0 || (path[root_len] != '/' && path[root_len] != 0)) return 0;
    return len < 4 || strcmp(path + len - 4, "-shm") != 0;
}

static int path_of(int fd, char out[PATH_MAX]) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
    if (len < 0) return 0;
    out[len] = 0;
    return 1;
}

/* Finds the full path of a name that may not exist yet; its directory must exist. */
static int path_at(int dir, const char *name, char out[PATH_MAX]) {
    char parent[PATH_MAX], given[PATH_MAX];
    if (name[0] == '/' || dir == AT_FDCWD) {
        if (snprintf(given, sizeof given, "%s", name) >= (int)sizeof given) return 0;
    } else {
        if (!path_of(dir, parent)) return 0;
        if (snprintf(given, sizeof given, "%s/%s", parent, name) >= (int)sizeof given) return 0;
    }
    char *slash = strrchr(given, '/');
    const char *base = slash ? slash + 1 : given;
    if (slash) *slash = 0;
    if (!realpath(!slash ? "." : given[0] ? given : "/", parent)) return 0;
    return snprintf(out, PATH_MAX, "%s/%s", parent[1] ? parent : "", base) < PATH_MAX;
}

/* Returns the watched file of a descriptor, or FOREIGN. */
static uint64_t file_of(int fd) {
    if (!watching() || fd < 0 || fd >= FDS) return FOREIGN;
    uint64_t known = atomic_load(&files[fd]);
    if (known != UNKNOWN) return known;
    int error = errno;
    char path[PATH_MAX];
    struct stat st;
    known = FOREIGN;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && path_of(fd, path) && is_watched(path)) known = st.st_ino;
    atomic_store(&files[fd], known);
    errno = error;
    return known;
}

static void forget(int fd) {
    if (fd >= 0 && fd < FDS) atomic_store(&files[fd], UNKNOWN);
}

static void append(char op, uint64_t file, uint64_t at, const char *name, size_t name_len, const void *data, size_t n) {
    if (log_fd < 0) return;
    struct record head = {(uint64_t)op, file, at, name_len, n};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)name, name_len}, {(void *)data, n}};
    int error = errno;
    if (syscall(SYS_writev, log_fd, parts, 3) != (long)(sizeof head + name_len + n)) abort();
    errno = error;
}

/* Counts a changing call, under `lock`; returns whether the program must die in the middle of it. */
static int count_point(void) {
    if (!armed()) return 0;
    points += 2;
    if (kill_at && points - 1 == kill_at) die();
    if (freeze_at && points - 1 == freeze_at) kill(getpid(), SIGSTOP);
    return kill_at && points == kill_at;
}

/* Returns how many of `len` bytes fit on the disk; called under `lock`. */
static size_t available(size_t len) {
    if (enospc_at == UINT64_MAX || !armed() || bytes + len <= enospc_at) return len;
    if (enospc_off && exists(enospc_off)) return len;
    return bytes < enospc_at ? enospc_at - bytes : 0;
}

/* Returns the offset of a write without an explicit one. */
static uint64_t write_offset(int fd) {
    struct stat st;
    if ((fcntl(fd, F_GETFL) & O_APPEND) && fstat(fd, &st) == 0) return st.st_size;
    return lseek(fd, 0, SEEK_CUR);
}

/* Writes at an offset, or without an explicit one if `at` is negative. */
static ssize_t record_write(int fd, uint64_t file, const void *data, size_t len, off_t at) {
    pthread_mutex_lock(&lock);
    int must_die = count_point();
    size_t fits = available(len);
    ssize_t done = -1;
    if (fits == 0 && len > 0) {
        errno = ENOSPC;
    } else {
        uint64_t where = at < 0 ? write_offset(fd) : (uint64_t)at;
        size_t some = must_die ? fits / 2 : fits;
        done = at < 0 ? syscall(SYS_write, fd, data, some) : syscall(SYS_pwrite64, fd, data, some, at);
        if (done > 0) {
            if (armed()) bytes += done;
            append('W', file, where, NULL, 0, data, done);
        }
    }
    if (must_die) die();
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t len) {
    uint64_t file = file_of(fd);
    return file == FOREIGN ? syscall(SYS_write, fd, data, len) : record_write(fd, file, data, len, -1);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at) {
    uint64_t file = file_of(fd);
    return file == FOREIGN ? syscall(SYS_pwrite64, fd, data, len, at) : record_write(fd, file, data, len, at);
}

/* A gathering write may store less than requested; this one stores only the first piece that is not empty. */
static ssize_t write_first(int fd, uint64_t file, const struct iovec *parts, int count, off_t at) {
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len) return record_write(fd, file, parts[i].iov_base, parts[i].iov_len, at);
    return 0;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    uint64_t file = file_of(fd);
    return file == FOREIGN ? syscall(SYS_writev, fd, parts, count) : write_first(fd, file, parts, count, -1);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    uint64_t file = file_of(fd);
    return file == FOREIGN ? syscall(SYS_pwritev, fd, parts, count, at, 0) : write_first(fd, file, parts, count, at);
}

/* Copies within the kernel are refused, so that callers fall back to reads and writes. */
ssize_t copy_file_range(int in, off_t *in_at, int out, off_t *out_at, size_t len, unsigned flags) {
    if (file_of(out) == FOREIGN) return syscall(SYS_copy_file_range, in, in_at, out, out_at, len, flags);
    errno = EXDEV;
    return -1;
}

ssize_t sendfile(int out, int in, off_t *at, size_t len) {
    if (file_of(out) == FOREIGN) return syscall(SYS_sendfile, out, in, at, len);
    errno = EINVAL;
    return -1;
}

/* Runs a call that may change a file's size, and records the new size. */
static long resize(int fd, long nr, long a, long b, long c) {
    uint64_t file = file_of(fd);
    struct stat before, after;
    if (file == FOREIGN) return syscall(nr, fd, a, b, c);
    pthread_mutex_lock(&lock);
    int must_die = count_point();
    fstat(fd, &before);
    long result = syscall(nr, fd, a, b, c);
    if (result == 0 && fstat(fd, &after) == 0 && after.st_size != before.st_size)
        append('T', file, after.st_size, NULL, 0, NULL, 0);
    if (must_die) die();
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t size) { return resize(fd, SYS_ftruncate, size, 0, 0); }
int fallocate(int fd, int mode, off_t at, off_t len) { return resize(fd, SYS_fallocate, mode, at, len); }

int posix_fallocate(int fd, off_t at, off_t len) {
    int error = errno, result = resize(fd, SYS_fallocate, 0, at, len) == 0 ? 0 : errno;
    errno = error;
    return result;
}

static int flush(int fd, long nr) {
    char path[PATH_MAX];
    struct stat st;
    if (!watching() || fstat(fd, &st) != 0 || !path_of(fd, path) || !is_watched(path)) return syscall(nr, fd);
    int directory = S_ISDIR(st.st_mode);
    uint64_t file = directory ? 0 : st.st_ino;
    size_t name_len = directory ? strlen(path) : 0;
    pthread_mutex_lock(&lock);
    int must_die = count_point(), affected = !sync_only || strstr(path + root_len, sync_only);
    if (affected && armed()) flushes++;
    int failing = affected && fail_sync_at && flushes >= fail_sync_at && flushes - fail_sync_at < fail_sync_count;
    int fake = affected && fake_sync;
    uint64_t ticket = ++tickets;
    if (!fake) append('B', file, ticket, path, name_len, NULL, 0);
    pthread_mutex_unlock(&lock);
    int result = fake ? 0 : failing ? -1 : syscall(nr, fd);
    if (failing) errno = EIO;
    pthread_mutex_lock(&lock);
    if (!fake) append(result == 0 ? 'S' : 'F', file, ticket, path, name_len, NULL, 0);
    if (must_die) die();
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd) { return flush(fd, SYS_fsync); }
int fdatasync(int fd) { return flush(fd, SYS_fdatasync); }

static int open_file(int dir, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat before, after;
    int changing = (flags & (O_CREAT | O_TRUNC)) && watching() && path_at(dir, name, path) && is_watched(path);
    if (!changing) {
        int fd = syscall(SYS_openat, dir, name, flags, mode);
        forget(fd);
        return fd;
    }
    pthread_mutex_lock(&lock);
    int existed = stat(path, &before) == 0;
    int must_die = !existed || ((flags & O_TRUNC) && before.st_size) ? count_point() : 0;
    int fd = syscall(SYS_openat, dir, name, flags, mode);
    forget(fd);
    if (fd >= 0 && fstat(fd, &after) == 0) {
        if (!existed) append('C', after.st_ino, 0, path, strlen(path), NULL, 0);
        else if (after.st_size != before.st_size) append('T', after.st_ino, after.st_size, NULL, 0, NULL, 0);
    }
    if (must_die) die();
    pthread_mutex_unlock(&lock);
    return fd;
}

#define OPEN(dir, name, flags)                                                                                      \
    va_list args;                                                                                                   \
    va_start(args, flags);                                                                                          \
    mode_t mode = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;                 \
    va_end(args);                                                                                                   \
    return open_file(dir, name, flags, mode)

int open(const char *name, int flags, ...) { OPEN(AT_FDCWD, name, flags); }
int openat(int dir, const char *name, int flags, ...) { OPEN(dir, name, flags); }

int creat(const char *name, mode_t mode) { return open_file(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
    forget(fd);
    return syscall(SYS_close, fd);
}

int dup3(int from, int to, int flags) {
    forget(to);
    return syscall(SYS_dup3, from, to, flags);
}

int dup2(int from, int to) {
    if (from == to) return fcntl(from, F_GETFD) < 0 ? -1 : to;
    return dup3(from, to, 0);
}

/* Runs a call that changes the name of a file: `old` is the name before, `new` (or NULL) the one after. */
static long change_name(char op, int old_dir, const char *old, int new_dir, const char *new, long nr, long flags) {
    char names[2 * PATH_MAX], to[PATH_MAX];
    struct stat st;
    int watched = watching() && path_at(old_dir, old, names) && is_watched(names) && lstat(names, &st) == 0;
    if (watched && new) watched = path_at(new_dir, new, to);
    pthread_mutex_lock(&lock);
    int must_die = watched ? count_point() : 0;
    long result = new ? syscall(nr, old_dir, old, new_dir, new, flags) : syscall(nr, old_dir, old, flags);
    if (watched && result == 0) {
        size_t len = strlen(names);
        if (new) {
            strcpy(names + len + 1, to);
            len += 1 + strlen(to);
        }
        append(op, st.st_ino, 0, names, len, NULL, 0);
    }
    if (must_die) die();
    pthread_mutex_unlock(&lock);
    return result;
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    return change_name('R', from, old, to, new, SYS_renameat2, flags);
}
int renameat(int from, const char *old, int to, const char *new) { return renameat2(from, old, to, new, 0); }
int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    return change_name('L', from, old, to, new, SYS_linkat, flags);
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }
int unlinkat(int dir, const char *name, int flags) {
    if (flags & AT_REMOVEDIR) return syscall(SYS_unlinkat, dir, name, flags);
    return change_name('U', dir, name, AT_FDCWD, NULL, SYS_unlinkat, flags);
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

/* The same calls under their large-file names. */
#define ALIAS_OF(name) __attribute__((alias(#name)))
int open64(const char *, int, ...) ALIAS_OF(open);
int openat64(int, const char *, int, ...) ALIAS_OF(openat);
int creat64(const char *, mode_t) ALIAS_OF(creat);
ssize_t pwrite64(int, const void *, size_t, off_t) ALIAS_OF(pwrite);
ssize_t pwritev64(int, const struct iovec *, int, off_t) ALIAS_OF(pwritev);
int ftruncate64(int, off_t) ALIAS_OF(ftruncate);
int fallocate64(int, int, off_t, off_t) ALIAS_OF(fallocate);
int posix_fallocate64(int, off_t, off_t) ALIAS_OF(posix_fallocate);
ssize_t sendfile64(int, int, off_t *, size_t) ALIAS_OF(sendfile);
