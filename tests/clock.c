/* A kernel whose time is another one, for programs that are started with LD_PRELOAD: every clock, every sleep and every
 * time-out. TESTS_CLOCK holds three whole numbers: how much faster time runs, the moment from which on it does so, in
 * nanoseconds of CLOCK_MONOTONIC, and how many nanoseconds longer the machine has been up (negative: less long); then the
 * name of a file that holds one more, in binary: how many nanoseconds were passed over while nobody waited. All programs
 * with the same value see the same time.
 *
 * Left as it is: CPU time, timers of the kernel (setitimer), and when files were written.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define REAL(name) ((__typeof__(&name))real(#name, &name##_found))
#define FOUND(name) static void *name##_found

FOUND(clock_gettime);
FOUND(clock_nanosleep);
FOUND(epoll_wait);
FOUND(poll);
FOUND(pselect);
FOUND(sem_clockwait);
FOUND(pthread_cond_timedwait);

static long long rate = 1, origin, longer;
static const long long none;
static const volatile long long *passed = &none;

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("TESTS_CLOCK");
    char *rest;
    if (!given) return;
    rate = strtoll(given, &rest, 10);
    origin = strtoll(rest, &rest, 10);
    longer = strtoll(rest, &rest, 10);
    int file = *rest ? open(rest + 1, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *passed, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) passed = page;
    close(file);
}

static void *real(const char *name, void **found) {
    if (!*found) *found = dlsym(RTLD_NEXT, name);
    return *found;
}

static long long of(const struct timespec *t) { return t->tv_sec * SECOND + t->tv_nsec; }

static struct timespec as(long long nanoseconds) {
    struct timespec t = {nanoseconds / SECOND, nanoseconds % SECOND};
    return t;
}

/* How far the fast clocks are ahead of the slow ones. */
static long long ahead(void) {
    struct timespec t;
    REAL(clock_gettime)(CLOCK_MONOTONIC, &t);
    long long gone = of(&t) - origin;
    return *passed + (gone > 0 ? gone * (rate - 1) : 0);
}

static int is_date(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

static int is_uptime(clockid_t clock) {
    return clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int code = REAL(clock_gettime)(clock, t);
    if (!code && is_date(clock)) *t = as(of(t) + ahead());
    if (!code && is_uptime(clock)) *t = as(of(t) + ahead() + longer);
    return code;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}

/* So long the slow clock has to run until the fast one has run for so many nanoseconds; 0 only for 0. */
static long long shorter(long long nanoseconds) {
    return nanoseconds <= 0 ? nanoseconds : (nanoseconds + rate - 1) / rate;
}

/* The moment of the slow clock at which the fast one reads so. */
static struct timespec moment(clockid_t clock, const struct timespec *fast) {
    struct timespec now, slow;
    clock_gettime(clock, &now);
    REAL(clock_gettime)(clock, &slow);
    return as(of(&slow) + shorter(of(fast) - of(&now)));
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked, struct timespec *left) {
    struct timespec t = flags & TIMER_ABSTIME ? moment(clock, asked) : as(shorter(of(asked)));
    return REAL(clock_nanosleep)(clock, flags, &t, left);
}

static int milliseconds(int given) { return given <= 0 ? given : (int)((given + rate - 1) / rate); }

int epoll_wait(int fd, struct epoll_event *events, int room, int timeout) {
    return REAL(epoll_wait)(fd, events, room, milliseconds(timeout));
}

int poll(struct pollfd *fds, nfds_t count, int timeout) { return REAL(poll)(fds, count, milliseconds(timeout)); }

int select(int count, fd_set *restrict in, fd_set *restrict out, fd_set *restrict odd, struct timeval *restrict timeout) {
    struct timespec t;
    if (timeout) t = as(shorter(timeout->tv_sec * SECOND + timeout->tv_usec * 1000LL));
    return REAL(pselect)(count, in, out, odd, timeout ? &t : NULL, NULL);
}

int sem_clockwait(sem_t *restrict sem, clockid_t clock, const struct timespec *restrict until) {
    struct timespec t = moment(clock, until);
    return REAL(sem_clockwait)(sem, clock, &t);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec t = moment(CLOCK_MONOTONIC, until); /* Python's: it asks for this clock wherever it can */
    return REAL(pthread_cond_timedwait)(cond, mutex, &t);
}
