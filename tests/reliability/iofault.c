/* Preloaded into a process: one kind of file operation under a folder fails, or ends the process, from the Nth on.

   iofault_arm(under, operations, nth, times, error, mode) sets it up; without it nothing is changed. `operations` is a
   sum of OPEN, WRITE, SYNC and RENAME; `times` is how many of them fail (-1: all from the Nth on); `mode` is 0 to fail
   with `error`, 1 to die by SIGKILL before the operation, 2 to die right after it. iofault_count() says how many there
   were. Only paths that begin with `under` count, so sockets and pipes never do.

   iofault_trace(file) writes a line to `file` for each sync that succeeds below `under`: the size up to which that file
   would be there after a power cut, and its path. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, WRITE = 2, SYNC = 4, RENAME = 8 };

static char under[PATH_MAX];
static int operations, error_number, mode;
static long nth, times, count;
static int trace = -1;

void iofault_arm(const char *folder, int which, long at, long how_often, int error, int how) {
    snprintf(under, sizeof under, "%s", folder);
    count = 0;
    nth = at;
    times = how_often;
    error_number = error;
    mode = how;
    operations = which;
}

long iofault_count(void) { return count; }

void iofault_trace(const char *file) { trace = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0600); }

static void die(void) { kill(getpid(), SIGKILL); }

/* Count an operation; 1: it has to fail, 2: the process has to die after it. */
static int strike(int operation, const char *path) {
    if (!(operations & operation) || strncmp(path, under, strlen(under)) != 0) return 0;
    long number = __sync_add_and_fetch(&count, 1);
    if (nth <= 0 || number < nth || (times >= 0 && number >= nth + times)) return 0;
    if (mode == 1) die();
    if (mode == 2) return 2;
    errno = error_number;
    return 1;
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return 1;
}

static int strike_fd(int operation, int fd) {
    char path[PATH_MAX];
    return (operations & operation) && path_of(fd, path) ? strike(operation, path) : 0;
}

/* The size is looked at before the sync: what is appended meanwhile may or may not be on the disk. */
static int traced(int fd, int (*sync)(int)) {
    struct stat found;
    char path[PATH_MAX], line[PATH_MAX + 32];
    int known = trace >= 0 && fstat(fd, &found) == 0 && path_of(fd, path) && !strncmp(path, under, strlen(under));
    int result = sync(fd);
    if (known && result == 0) {
        int size = snprintf(line, sizeof line, "%ld %s\n", (long)found.st_size, path);
        syscall(SYS_write, trace, line, size);
    }
    return result;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_FD(operation, name, declared, passed, type)                                                                 \
    type name declared {                                                                                               \
        static __typeof__(&name) next;                                                                                 \
        if (!next) next = NEXT(name);                                                                                  \
        int struck = strike_fd(operation, fd);                                                                         \
        if (struck == 1) return -1;                                                                                    \
        type result = next passed;                                                                                     \
        if (struck == 2) die();                                                                                        \
        return result;                                                                                                 \
    }

ON_FD(WRITE, write, (int fd, const void *data, size_t size), (fd, data, size), ssize_t)
ON_FD(WRITE, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n), ssize_t)
ON_FD(WRITE, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), ssize_t)
ON_FD(WRITE, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), ssize_t)
#define ON_SYNC(name)                                                                                                  \
    int name(int fd) {                                                                                                 \
        static int (*next)(int);                                                                                       \
        if (!next) next = NEXT(name);                                                                                  \
        int struck = strike_fd(SYNC, fd);                                                                              \
        if (struck == 1) return -1;                                                                                    \
        int result = traced(fd, next);                                                                                 \
        if (struck == 2) die();                                                                                        \
        return result;                                                                                                 \
    }

ON_SYNC(fsync)
ON_SYNC(fdatasync)

/* A relative path counts as one under the current folder. */
static int strike_path(int operation, const char *path) {
    if (path[0] == '/') return strike(operation, path);
    char whole[2 * PATH_MAX];
    if (!(operations & operation) || !getcwd(whole, PATH_MAX)) return 0;
    strcat(whole, "/");
    strncat(whole, path, PATH_MAX - 1);
    return strike(operation, whole);
}

#define ON_OPEN(name)                                                                                                  \
    int name(const char *path, int flags, ...) {                                                                       \
        static int (*next)(const char *, int, ...);                                                                    \
        if (!next) next = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);                                    \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        int how = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, int) : 0;                                             \
        va_end(rest);                                                                                                  \
        int struck = (flags & (O_CREAT | O_WRONLY | O_RDWR)) ? strike_path(OPEN, path) : 0;                            \
        if (struck == 1) return -1;                                                                                    \
        int result = next(path, flags, how);                                                                           \
        if (struck == 2) die();                                                                                        \
        return result;                                                                                                 \
    }

ON_OPEN(open)
ON_OPEN(open64)

#define ON_RENAME(name, declared, passed)                                                                              \
    int name declared {                                                                                                \
        static __typeof__(&name) next;                                                                                 \
        if (!next) next = NEXT(name);                                                                                  \
        int struck = strike_path(RENAME, to);                                                                          \
        if (struck == 1) return -1;                                                                                    \
        int result = next passed;                                                                                      \
        if (struck == 2) die();                                                                                        \
        return result;                                                                                                 \
    }

ON_RENAME(rename, (const char *from, const char *to), (from, to))
ON_RENAME(renameat, (int here, const char *from, int there, const char *to), (here, from, there, to))
