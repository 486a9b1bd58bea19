// The code that runs parallel loops in an exported C program, as text for the file.
#pragma once

namespace lathe::pipeline {

constexpr const char* kThreadIncludes =
    R"(#if !defined(__GNUC__) && !defined(LATHE_NO_THREADS) /* they need GCC's atomics, which Clang has, too */
#define LATHE_NO_THREADS
#endif
#if !defined(LATHE_NO_THREADS)
#include <pthread.h>
#include <sched.h>
#endif
)";

/// Defines `struct lathe_team`. Kernels take its `env`, and run between `lathe_begin` and `lathe_end`. Keys:
/// @count@, the number of threads, and @scratch@, the bytes of scratch of each thread.
constexpr const char* kThreads = R"(
/* -DLATHE_NO_THREADS: the one that calls. */
#if defined(LATHE_NO_THREADS)
struct lathe_team {
  struct lathe_env env;
};
static void lathe_parallel_for(const struct lathe_env* env, int64_t count, lathe_body body, void* const* buffers,
                               const int64_t* vars, char* scratch) {
  int64_t index;
  for (index = 0; index < count; ++index) body(index, buffers, vars, scratch, scratch, env);
}
static void lathe_end(struct lathe_team* team) { (void)team; }
#else
/* Threads that live as long as a run. Of a loop each begins with a part of its own, of iterations one next to the
   other, and then helps whoever has the most left. */
enum { LATHE_IDLE, LATHE_POSTED, LATHE_RUNNING, LATHE_LEAVING };

struct lathe_worker {
  struct lathe_team* team;
  char* scratch;
  int64_t begin, end; /* what is left of its part */
  pthread_t thread;
  char before[64]; /* what others write while this one waits lies in other lines than the phase */
  int phase;       /* posted and ended by the caller, the rest by the worker */
  char after[64];
};
struct lathe_team {
  struct lathe_env env;
  lathe_body body;
  void* const* buffers;
  const int64_t* vars;
  char* outer;
  pthread_mutex_t mutex; /* of the workers' parts, and to sleep under */
  pthread_cond_t posted;
  int asleep, started;
  struct lathe_worker workers[@count@]; /* the first is the caller */
};

/* Some of what is left, few enough that the others find work at the end; false if there is nothing. */
static int lathe_take(struct lathe_worker* worker, int64_t* begin, int64_t* end) {
  struct lathe_team* const team = worker->team;
  struct lathe_worker* from = worker;
  int k;
  pthread_mutex_lock(&team->mutex);
  if (worker->begin == worker->end) {
    for (k = 0; k < @count@; ++k)
      if (team->workers[k].end - team->workers[k].begin > from->end - from->begin) from = &team->workers[k];
    worker->end = from->end;
    worker->begin = from->end -= (from->end - from->begin + 1) / 2;
  }
  *begin = worker->begin;
  *end = worker->begin += (worker->end - worker->begin + 3) / 4;
  pthread_mutex_unlock(&team->mutex);
  return *begin < *end;
}

static void lathe_work(struct lathe_worker* worker) {
  const struct lathe_team* const team = worker->team;
  int64_t index, end;
  while (lathe_take(worker, &index, &end))
    for (; index < end; ++index)
      team->body(index, team->buffers, team->vars, team->outer, worker->scratch, &team->env);
}

/* While waiting for the k-th time: at first the core is kept, then it goes to whoever wants it. */
static void lathe_pause(int k) {
#if defined(__x86_64__) || defined(__i386__)
  if (k < 2000) {
    __builtin_ia32_pause();
    return;
  }
#endif
  (void)k;
  sched_yield();
}

/* The next phase that is not idle: awake for a while, as to wake a thread may take longer than a loop does. */
static int lathe_wait(struct lathe_worker* worker) {
  struct lathe_team* const team = worker->team;
  int k, phase = LATHE_IDLE;
  for (k = 0; k < 4000 && phase == LATHE_IDLE; ++k) {
    phase = __atomic_load_n(&worker->phase, __ATOMIC_ACQUIRE);
    if (phase == LATHE_IDLE) lathe_pause(k);
  }
  if (phase != LATHE_IDLE) return phase;
  pthread_mutex_lock(&team->mutex);
  __atomic_add_fetch(&team->asleep, 1, __ATOMIC_SEQ_CST);
  while ((phase = __atomic_load_n(&worker->phase, __ATOMIC_SEQ_CST)) == LATHE_IDLE)
    pthread_cond_wait(&team->posted, &team->mutex);
  __atomic_sub_fetch(&team->asleep, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_unlock(&team->mutex);
  return phase;
}

static void* lathe_serve(void* argument) {
  struct lathe_worker* const worker = (struct lathe_worker*)argument;
  while (lathe_wait(worker) != LATHE_LEAVING) {
    int posted = LATHE_POSTED;
    if (!__atomic_compare_exchange_n(&worker->phase, &posted, LATHE_RUNNING, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue; /* the caller did it all, and took it back */
    lathe_work(worker);
    __atomic_store_n(&worker->phase, LATHE_IDLE, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void lathe_post(struct lathe_team* team, int phase) {
  int k;
  for (k = 1; k <= team->started; ++k) __atomic_store_n(&team->workers[k].phase, phase, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&team->asleep, __ATOMIC_SEQ_CST) == 0) return;
  pthread_mutex_lock(&team->mutex); /* they are either before their look at the phase or really waiting */
  pthread_mutex_unlock(&team->mutex);
  pthread_cond_broadcast(&team->posted);
}

static void lathe_parallel_for(const struct lathe_env* env, int64_t count, lathe_body body, void* const* buffers,
                               const int64_t* vars, char* scratch) {
  struct lathe_team* const team = (struct lathe_team*)env; /* its first member */
  int k, tries;
  team->body = body, team->buffers = buffers, team->vars = vars, team->outer = scratch;
  pthread_mutex_lock(&team->mutex);
  for (k = 0; k < @count@; ++k) {
    team->workers[k].scratch = scratch + (size_t)k * env->scratch_bytes;
    team->workers[k].begin = count * k / @count@, team->workers[k].end = count * (k + 1) / @count@;
  }
  pthread_mutex_unlock(&team->mutex);
  while (team->started < @count@ - 1) {
    struct lathe_worker* const next = &team->workers[team->started + 1];
    if (pthread_create(&next->thread, NULL, lathe_serve, next) != 0) break; /* the others do it all */
    ++team->started;
  }
  lathe_post(team, LATHE_POSTED);
  lathe_work(&team->workers[0]);
  for (k = 1; k <= team->started; ++k) {
    int posted = LATHE_POSTED; /* who has not begun is not waited for */
    if (__atomic_compare_exchange_n(&team->workers[k].phase, &posted, LATHE_IDLE, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_ACQUIRE))
      continue;
    for (tries = 0; __atomic_load_n(&team->workers[k].phase, __ATOMIC_ACQUIRE) != LATHE_IDLE; ++tries)
      lathe_pause(tries);
  }
}

static void lathe_end(struct lathe_team* team) {
  int k;
  lathe_post(team, LATHE_LEAVING);
  for (k = 1; k <= team->started; ++k) pthread_join(team->workers[k].thread, NULL);
  pthread_cond_destroy(&team->posted);
  pthread_mutex_destroy(&team->mutex);
}
#endif

static void lathe_begin(struct lathe_team* team) {
  team->env.parallel_for = lathe_parallel_for, team->env.scratch_bytes = @scratch@, team->env.threads = @count@;
#if !defined(LATHE_NO_THREADS)
  {
    int k;
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->posted, NULL);
    team->asleep = team->started = 0;
    for (k = 0; k < @count@; ++k) team->workers[k].team = team, team->workers[k].phase = LATHE_IDLE;
  }
#endif
}
)";

} // namespace lathe::pipeline
