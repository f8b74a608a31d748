/* The wall clock of one process, as many seconds off as the first eight bytes of the file SLOTLOG_CLOCK say, and nothing
   else: preloaded. Waits until an instant of the wall clock are told the machine's, or they would never end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long off(void) {
    static volatile long *seconds;
    if (!seconds) {
        int file = open(getenv("SLOTLOG_CLOCK"), O_RDONLY);
        seconds = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
        close(file);
    }
    return *seconds;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static struct timespec machines(const struct timespec *until) {
    struct timespec found = *until;
    found.tv_sec -= off();
    return found;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    static __typeof__(&clock_gettime) real;
    if (!real) real = (__typeof__(&clock_gettime))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, found);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) found->tv_sec += off();
    return code;
}

int gettimeofday(struct timeval *found, void *zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *found, int base) {
    clock_gettime(CLOCK_REALTIME, found);
    return base;
}

/* A condition that counts another clock is told so when it is made; ours here count the wall clock. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    REAL(pthread_cond_timedwait);
    struct timespec now, monotonic, meant = *until;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    if (labs(until->tv_sec - now.tv_sec) < labs(until->tv_sec - monotonic.tv_sec)) meant = machines(until);
    return real(condition, mutex, &meant);
}

int cnd_timedwait(void *condition, void *mutex, const struct timespec *until) {
    return pthread_cond_timedwait(condition, mutex, until) == 0 ? 0 : 4; /* thrd_timedout */
}

int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                           const struct timespec *until) {
    REAL(pthread_cond_clockwait);
    struct timespec meant = clock == CLOCK_REALTIME ? machines(until) : *until;
    return real(condition, mutex, clock, &meant);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *until) {
    REAL(sem_timedwait);
    struct timespec meant = machines(until);
    return real(semaphore, &meant);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until) {
    REAL(sem_clockwait);
    struct timespec meant = clock == CLOCK_REALTIME ? machines(until) : *until;
    return real(semaphore, clock, &meant);
}
