/* Preloaded into a process: the disk is full from the Nth write below a folder on.

   IOFAULT_UNDER is the folder, IOFAULT_NTH the number of the first write that fails with ENOSPC. Only files below the
   folder count, so sockets and pipes never fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_full(int fd) {
    static long count;
    const char *under = getenv("IOFAULT_UNDER"), *nth = getenv("IOFAULT_NTH");
    char link[64], path[PATH_MAX];
    if (!under || !nth) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    if (strncmp(path, under, strlen(under)) != 0 || __sync_add_and_fetch(&count, 1) < atol(nth)) return 0;
    errno = ENOSPC;
    return 1;
}

#define ON_WRITE(name, declared, passed)                                                                               \
    ssize_t name declared {                                                                                            \
        static __typeof__(&name) next;                                                                                 \
        if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                                                  \
        return is_full(fd) ? -1 : next passed;                                                                         \
    }

ON_WRITE(write, (int fd, const void *data, size_t size), (fd, data, size))
ON_WRITE(writev, (int fd, const struct iovec *parts, int n), (fd, parts, n))
ON_WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
ON_WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
