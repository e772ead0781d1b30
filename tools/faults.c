/* Faults for a process that is started with this library in LD_PRELOAD.
 *
 * Why: a test wants the disk to fail, fill up, or the process to die, at one exact step, such as the third rename
 * of a file whose path contains ".swap". strace can count calls, but not look at paths.
 *
 * FAULTS holds rules, separated by ';', each  CALL:PATH:FIRST:LAST:ACTION[:FLAG]
 *   CALL    pwrite write fdatasync fsync rename unlink ftruncate open fallocate
 *   PATH    a part of the file's path (of either path of a rename); empty matches all
 *   FIRST, LAST   which of the matching calls, counted from 1 over all threads; LAST 0 is "for good"
 *   ACTION  before (die before the call), after (die after it), short (write half, once), or an errno by number
 *   FLAG    a path: the rule holds, and counts, only while that file exists
 *
 * cc -shared -fPIC -O1 -o faults.so tools/faults.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define RULES_MAX 16
#define TEXT_MAX 512

struct rule {
    char call[16], path[TEXT_MAX], action[16], flag[TEXT_MAX];
    long first, last;
    atomic_long seen;
};

static struct rule rules[RULES_MAX];
static int rule_count;

static void field(const char **from, char *to, size_t size) {
    size_t used = 0;
    while (**from && **from != ':' && **from != ';') {
        if (used + 1 < size) to[used++] = **from;
        (*from)++;
    }
    to[used] = 0;
    if (**from == ':') (*from)++;
}

__attribute__((constructor)) static void read_rules(void) {
    const char *text = getenv("FAULTS");
    while (text && *text && rule_count < RULES_MAX) {
        struct rule *rule = &rules[rule_count++];
        char number[32];
        field(&text, rule->call, sizeof rule->call);
        field(&text, rule->path, sizeof rule->path);
        field(&text, number, sizeof number);
        rule->first = atol(number);
        field(&text, number, sizeof number);
        rule->last = atol(number);
        field(&text, rule->action, sizeof rule->action);
        field(&text, rule->flag, sizeof rule->flag);
        while (*text && *text != ';') text++;
        if (*text == ';') text++;
    }
}

static const char *path_of(int fd, char *buffer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, buffer, TEXT_MAX - 1);
    buffer[size > 0 ? size : 0] = 0;
    return buffer;
}

/* The rule that strikes this call, if any; dies here if it says "before". */
static struct rule *struck(const char *call, const char *path, const char *second) {
    for (int row = 0; row < rule_count; row++) {
        struct rule *rule = &rules[row];
        if (strcmp(rule->call, call)) continue;
        if (!strstr(path, rule->path) && !(second && strstr(second, rule->path))) continue;
        if (*rule->flag && access(rule->flag, F_OK)) continue;
        long number = atomic_fetch_add(&rule->seen, 1) + 1;
        if (number < rule->first || (rule->last && number > rule->last)) continue;
        if (!strcmp(rule->action, "before")) kill(getpid(), SIGKILL);
        return rule;
    }
    return NULL;
}

static int fails(struct rule *rule) {
    if (!rule || !strcmp(rule->action, "after") || !strcmp(rule->action, "short")) return 0;
    errno = atoi(rule->action);
    return 1;
}

static void end(struct rule *rule) {
    if (rule && !strcmp(rule->action, "after")) kill(getpid(), SIGKILL);
}

#define REAL(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
#define ON_FD(call, fd) char place[TEXT_MAX]; int saved = errno; \
    struct rule *rule = rule_count ? struck(call, path_of(fd, place), NULL) : NULL; \
    errno = saved; if (fails(rule)) return -1;

static ssize_t put(const char *name, int fd, const void *from, size_t size, off_t offset) {
    ON_FD("pwrite", fd)
    if (rule && !strcmp(rule->action, "short")) size /= 2;
    ssize_t done = REAL(ssize_t, name, int, const void *, size_t, off_t)(fd, from, size, offset);
    end(rule);
    return done;
}

ssize_t pwrite64(int fd, const void *from, size_t size, off_t offset) { return put("pwrite64", fd, from, size, offset); }
ssize_t pwrite(int fd, const void *from, size_t size, off_t offset) { return put("pwrite", fd, from, size, offset); }

ssize_t write(int fd, const void *from, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = REAL(ssize_t, "write", int, const void *, size_t);
    ON_FD("write", fd)
    ssize_t done = real(fd, from, size);
    end(rule);
    return done;
}

int fdatasync(int fd) {
    ON_FD("fdatasync", fd)
    int done = REAL(int, "fdatasync", int)(fd);
    end(rule);
    return done;
}

int fsync(int fd) {
    ON_FD("fsync", fd)
    int done = REAL(int, "fsync", int)(fd);
    end(rule);
    return done;
}

static int cut(const char *name, int fd, off_t size) {
    ON_FD("ftruncate", fd)
    int done = REAL(int, name, int, off_t)(fd, size);
    end(rule);
    return done;
}

int ftruncate64(int fd, off_t size) { return cut("ftruncate64", fd, size); }
int ftruncate(int fd, off_t size) { return cut("ftruncate", fd, size); }

static int reserve(const char *name, int fd, off_t from, off_t size) {
    ON_FD("fallocate", fd)
    int done = REAL(int, name, int, off_t, off_t)(fd, from, size);
    end(rule);
    return done;
}

int posix_fallocate64(int fd, off_t from, off_t size) {
    int done = reserve("posix_fallocate64", fd, from, size);
    return done < 0 ? errno : done;
}
int posix_fallocate(int fd, off_t from, off_t size) { return posix_fallocate64(fd, from, size); }

int rename(const char *from, const char *to) {
    struct rule *rule = struck("rename", from, to);
    if (fails(rule)) return -1;
    int done = REAL(int, "rename", const char *, const char *)(from, to);
    end(rule);
    return done;
}

int unlink(const char *path) {
    struct rule *rule = struck("unlink", path, NULL);
    if (fails(rule)) return -1;
    int done = REAL(int, "unlink", const char *)(path);
    end(rule);
    return done;
}

static int open_(const char *name, const char *path, int flags, mode_t mode) {
    struct rule *rule = struck("open", path, NULL);
    if (fails(rule)) return -1;
    int done = REAL(int, name, const char *, int, ...)(path, flags, mode);
    end(rule);
    return done;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_("open64", path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_("open", path, flags, mode);
}
