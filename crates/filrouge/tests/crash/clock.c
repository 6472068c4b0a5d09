/* Preloaded into the server: moves the machine's clock by the seconds in the file CLOCK_OFFSET, which a test replaces.
   The monotonic clock is not changed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *path = getenv("CLOCK_OFFSET");
    char text[32] = {0};
    int error = errno, fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t size = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    errno = error;
    return size > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += offset();
    return result;
}
