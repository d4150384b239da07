// The floor: AdamW's streams read and written with no arithmetic between, the least time any step can take.
#include <stdint.h>

#ifdef __AVX512F__
typedef long long bytes_t __attribute__((vector_size(64), aligned(1)));
#else
typedef long long bytes_t __attribute__((vector_size(32), aligned(1)));
#endif

enum { chunk = 16384 }; // bytes of one stream: 4096 f32, as the sweeps have

struct row {
  char *grad, *param, *m, *v;
  int64_t bytes; // of each stream
  char *weight;  // of bf16, beside a master `param`
};

struct job {
  const struct row *rows;
  const int64_t *chunks; // pairs: row, first byte
};

typedef void (*body_fn)(int64_t, int64_t, void *);
typedef int32_t (*parallel_fn)(int64_t, int64_t, int64_t, body_fn, void *);

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The empty asm keeps a load whose value is not needed and a store of what is already there.
#define KEEP(x) __asm__ volatile("" : "+v"(x))
#ifndef __AVX512F__
#undef KEEP
#define KEEP(x) __asm__ volatile("" : "+x"(x))
#endif

static void update(int64_t begin, int64_t end, void *context) {
  const struct job *job = context;
  for (int64_t i = begin; i < end; ++i) {
    const struct row *row = &job->rows[job->chunks[2 * i]];
    int64_t at = job->chunks[2 * i + 1], stop = least(at + chunk, row->bytes);
    for (; at + (int64_t)sizeof(bytes_t) <= stop; at += sizeof(bytes_t)) {
      bytes_t g = *(bytes_t *)(row->grad + at), p = *(bytes_t *)(row->param + at);
      bytes_t m = *(bytes_t *)(row->m + at), v = *(bytes_t *)(row->v + at);
      KEEP(g);
      KEEP(p);
      KEEP(m);
      KEEP(v);
      *(bytes_t *)(row->param + at) = p;
      *(bytes_t *)(row->m + at) = m;
      *(bytes_t *)(row->v + at) = v;
    }
    for (; at < stop; ++at) {
      (void)*(volatile char *)(row->grad + at);
      *(volatile char *)(row->param + at) = *(volatile char *)(row->param + at);
      *(volatile char *)(row->m + at) = *(volatile char *)(row->m + at);
      *(volatile char *)(row->v + at) = *(volatile char *)(row->v + at);
    }
  }
}

// GridOptim's twelve bytes: chunks of bf16 gradients read, of codes (p) and f32 (m) read and written.
static void grid(int64_t begin, int64_t end, void *context) {
  const struct job *job = context;
  for (int64_t i = begin; i < end; ++i) {
    const struct row *row = &job->rows[job->chunks[2 * i]];
    int64_t at = job->chunks[2 * i + 1], stop = least(at + chunk, row->bytes);
    for (; at + 4 * (int64_t)sizeof(bytes_t) <= stop; at += 4 * sizeof(bytes_t)) {
      bytes_t p = *(bytes_t *)(row->param + at / 4);
      KEEP(p);
      *(bytes_t *)(row->param + at / 4) = p;
      for (int64_t k = 0; k < 4 * (int64_t)sizeof(bytes_t); k += sizeof(bytes_t)) {
        bytes_t m = *(bytes_t *)(row->m + at + k);
        KEEP(m);
        *(bytes_t *)(row->m + at + k) = m;
      }
      for (int64_t k = 0; k < 2 * (int64_t)sizeof(bytes_t); k += sizeof(bytes_t)) {
        bytes_t g = *(bytes_t *)(row->grad + at / 2 + k);
        KEEP(g);
      }
    }
  }
}

// The 30 bytes of a master on the host: bf16 gradients read, masters, m and v of f32 and bf16 weights read and written.
static void host(int64_t begin, int64_t end, void *context) {
  const struct job *job = context;
  for (int64_t i = begin; i < end; ++i) {
    const struct row *row = &job->rows[job->chunks[2 * i]];
    int64_t at = job->chunks[2 * i + 1], stop = least(at + chunk, row->bytes);
    for (; at + 2 * (int64_t)sizeof(bytes_t) <= stop; at += 2 * sizeof(bytes_t)) {
      bytes_t g = *(bytes_t *)(row->grad + at / 2), w = *(bytes_t *)(row->weight + at / 2);
      KEEP(g);
      KEEP(w);
      for (int64_t k = 0; k < 2 * (int64_t)sizeof(bytes_t); k += sizeof(bytes_t)) {
        bytes_t p = *(bytes_t *)(row->param + at + k), m = *(bytes_t *)(row->m + at + k);
        bytes_t v = *(bytes_t *)(row->v + at + k);
        KEEP(p);
        KEEP(m);
        KEEP(v);
        *(bytes_t *)(row->param + at + k) = p;
        *(bytes_t *)(row->m + at + k) = m;
        *(bytes_t *)(row->v + at + k) = v;
      }
      *(bytes_t *)(row->weight + at / 2) = w;
    }
  }
}

static void norm16(int64_t begin, int64_t end, void *context) {
  const struct job *job = context;
  for (int64_t i = begin; i < end; ++i) {
    const struct row *row = &job->rows[job->chunks[2 * i]];
    int64_t at = job->chunks[2 * i + 1] / 2, stop = least(at + chunk / 2, row->bytes / 2);
    for (; at + (int64_t)sizeof(bytes_t) <= stop; at += sizeof(bytes_t)) {
      bytes_t g = *(bytes_t *)(row->grad + at);
      KEEP(g);
    }
  }
}

static void norm(int64_t begin, int64_t end, void *context) {
  const struct job *job = context;
  for (int64_t i = begin; i < end; ++i) {
    const struct row *row = &job->rows[job->chunks[2 * i]];
    int64_t at = job->chunks[2 * i + 1], stop = least(at + chunk, row->bytes);
    for (; at + (int64_t)sizeof(bytes_t) <= stop; at += sizeof(bytes_t)) {
      bytes_t g = *(bytes_t *)(row->grad + at);
      KEEP(g);
    }
    for (; at < stop; ++at)
      (void)*(volatile char *)(row->grad + at);
  }
}

// A step with masters; `bytes` of a row are those of its f32. What is no whole vector of bf16 is left out.
void floor_host(const struct row *rows, const int64_t *chunks, int64_t count, int clipped, parallel_fn run) {
  struct job job = {rows, chunks};
  for (int pass = clipped ? 0 : 1; pass < 2; ++pass) {
    body_fn body = pass ? host : norm16;
    if (run)
      run(0, count, 8, body, &job);
    else
      body(0, count, &job);
  }
}

// A step of GridOptim; `bytes` of a row are those of its f32. What is no whole vector of codes is left out.
void floor_grid(const struct row *rows, const int64_t *chunks, int64_t count, parallel_fn run) {
  struct job job = {rows, chunks};
  if (run)
    run(0, count, 8, grid, &job);
  else
    grid(0, count, &job);
}

// One step: with `clipped`, the pass that a norm needs comes first. `run` is torch_parallel_for, so that the threads are
// the same as torch's; NULL: this thread alone.
void floor_step(const struct row *rows, const int64_t *chunks, int64_t count, int clipped, parallel_fn run) {
  struct job job = {rows, chunks};
  for (int pass = clipped ? 0 : 1; pass < 2; ++pass) {
    body_fn body = pass ? update : norm;
    if (run)
      run(0, count, 8, body, &job);
    else
      body(0, count, &job);
  }
}
