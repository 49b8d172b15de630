/* A system on which creating a file is slow, is interrupted, or has a signal come: preloaded beside the recorder, whose calls alone it changes.
 *
 *   SLOW=open:MS, SLOW=fallocate:MS   the first such call takes so long; a thread may be cancelled meanwhile
 *   INTERRUPT=COUNT                   each part of a file is refused so many times with EINTR before it is reserved
 *   RAISE=1                           the first call raises SIGUSR1 on its own thread
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How many calls have come. */
int slow_calls;

static void delay(const char *name) {
    char slow[32] = "";
    int ms = 0;
    const char *text = getenv("SLOW");
    if (text) sscanf(text, "%31[^:]:%d", slow, &ms);
    if (*slow && strcmp(slow, name)) return;
    if (__atomic_fetch_add(&slow_calls, 1, __ATOMIC_SEQ_CST)) return;
    if (getenv("RAISE")) raise(SIGUSR1);
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, mode_t);
    if (!real) real = (int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, "open");
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (strstr(path, ".ncclrec")) delay("open");
    return real(path, flags, mode);
}

int fallocate(int fd, int mode, off_t from, off_t length) {
    static int (*real)(int, int, off_t, off_t);
    static int refused, wanted = -1;
    static off_t last = -1;
    if (!real) real = (int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate");
    delay("fallocate");
    if (wanted < 0) wanted = getenv("INTERRUPT") ? atoi(getenv("INTERRUPT")) : 0;
    if (from != last) refused = 0;
    last = from;
    if (refused < wanted) {
        refused++;
        errno = EINTR;
        return -1;
    }
    return real(fd, mode, from, length);
}
