// A bundle written by hand for two sets of tensors with one norm over both:
//   set 0: w -= rate[group] g; t counts
//   set 1: w -= half g, in f64, and the greatest |w| of each 32 elements is stored
//   beside them
// Both add `decay` of the group, and `seen` counts the steps of every tensor.
#include "altgrad/bundle.h"
#include "manifest.h"

#include <math.h>
#include <string.h>

// clang-format off
const char altgrad_manifest[] =
    "{\"altgrad\": 5, \"step\": \"sets\", \"producer\": \"a hand\","
    " \"host\": [\"v3\", \"v4\"], \"ptx\": [],"
    " \"sets\": 2, \"units\": [\"none\", \"none\"], \"row_words\": 15, \"inputs\": 1,"
    " \"streams\": ["
    STREAM("g", "grad", "grad", "in", "f32", 32, 1, 0, 0) ","
    STREAM("w", "w", "param", "inout", "f32", 32, 1, 1, 0) ","
    STREAM("g_1", "grad", "grad", "in", "f32", 32, 1, 0, 1) ","
    STREAM("w_1", "w", "param", "inout", "f64", 64, 1, 1, 1) ","
    STREAM("most_1", "most", "state", "out", "f32", 32, 32, 2, 1) "],"
    " \"scalars\": ["
    SCALAR("decay", "decay", "hyper", "in", "f32", "group", 0, null, 0.5) ","
    SCALAR("rate", "rate", "hyper", "in", "f64", "group", 1, 0, 0.25) ","
    SCALAR("half_1", "half", "hyper", "in", "f32", "group", 1, 1, null) ","
    SCALAR("seen", "seen", "none", "inout", "i64", "tensor", 0, null, null) ","
    SCALAR("t", "step", "step", "inout", "i64", "tensor", 2, 0, null) ","
    SCALAR("norm", "norm", "norm", "out", "f32", "step", 0, null, null) "],"
    " \"group_scalars\": 2, \"step_scalars\": 1,"
    " \"workspace\": {\"step_words\": 2, \"row_words\": 0,"
    "                 \"chunk_words\": 1, \"spills\": 0},"
    " \"phases\": ["
    PHASE("norm", "altgrad_sets_norm", "sweep", "chunks", 0, 8, 4, 0) ","
    PHASE("norm_1", "altgrad_sets_norm", "sweep", "chunks", 1, 8, 4, 0) ","
    PHASE("total", "altgrad_sets_total", "total", "once", null, 1, 0, 0) ","
    PHASE("write", "altgrad_sets_write", "scalars", "once", null, 1, 0, 0) ","
    PHASE("count", "altgrad_sets_count", "scalars", "rows", null, 256, 0, 0) ","
    PHASE("update", "altgrad_sets_update", "sweep", "chunks", 0, 8, 8, 4) ","
    PHASE("update_1", "altgrad_sets_update_1", "sweep", "chunks", 1, 8, 12,
          8.125) "],"
    " \"exchanges\": [" EXCHANGE(3, 1, "add") "], \"partials\": [], \"warnings\": []}";
// clang-format on

enum { rowWords = 15, groupScalars = 2 };

static const uint64_t *rowOf(const altgrad_args *a, int64_t chunk) {
  return a->rows + a->chunks[chunk].row * rowWords;
}

static const void *ofGroup(const altgrad_args *a, const uint64_t *row,
                           int scalar) {
  uint64_t group = row[ALTGRAD_ROW_GROUP];
  return (const void *)a->groups[group * groupScalars + scalar];
}

static int64_t endOf(const altgrad_args *a, int64_t chunk) {
  int64_t numel = (int64_t)rowOf(a, chunk)[ALTGRAD_ROW_NUMEL];
  int64_t end = a->chunks[chunk].first + ALTGRAD_CHUNK;
  return end < numel ? end : numel;
}

static void norm(const altgrad_args *a, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const float *g = (const float *)a->inputs[a->chunks[c].row];
    float sum = 0;
    for (int64_t i = a->chunks[c].first; i < endOf(a, c); ++i)
      sum += fabsf(g[i]);
    memcpy(a->chunk_words + c, &sum, 4);
  }
}

static void total(const altgrad_args *a, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  float sum = 0, part;
  for (int64_t c = 0; c < a->nchunks; ++c) {
    memcpy(&part, a->chunk_words + c, 4);
    sum += part;
  }
  memcpy(a->step_words + 1, &sum, 4);
}

static void write(const altgrad_args *a, int64_t begin, int64_t end) {
  (void)begin, (void)end;
  memcpy((void *)a->scalars[0], a->step_words + 1, 4);
}

static void count(const altgrad_args *a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const uint64_t *row = a->rows + r * rowWords;
    *(int64_t *)row[ALTGRAD_ROW_HEADER] += 1;
    if (r < a->sets[1])
      *(int64_t *)row[ALTGRAD_ROW_HEADER + 2] += 1;
  }
}

static void update(const altgrad_args *a, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const uint64_t *row = rowOf(a, c);
    const float *g = (const float *)a->inputs[a->chunks[c].row];
    float *w = (float *)row[ALTGRAD_ROW_HEADER + 1];
    float rate = (float)*(const double *)ofGroup(a, row, 1);
    for (int64_t i = a->chunks[c].first; i < endOf(a, c); ++i)
      w[i] = w[i] - rate * g[i] + *(const float *)ofGroup(a, row, 0);
  }
}

static void update_1(const altgrad_args *a, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const uint64_t *row = rowOf(a, c);
    const float *g = (const float *)a->inputs[a->chunks[c].row];
    double *w = (double *)row[ALTGRAD_ROW_HEADER + 1];
    float *most = (float *)row[ALTGRAD_ROW_HEADER + 2];
    float half = *(const float *)ofGroup(a, row, 1);
    for (int64_t i = a->chunks[c].first; i < endOf(a, c); ++i) {
      w[i] = w[i] - half * g[i] + *(const float *)ofGroup(a, row, 0);
      float size = (float)fabs(w[i]);
      if (i % 32 == 0 || size > most[i / 32])
        most[i / 32] = size;
    }
  }
}

#define KERNEL(name, level)                                                    \
  void altgrad_sets_##name##_##level(const altgrad_args *a, int64_t begin,     \
                                     int64_t end) {                            \
    name(a, begin, end);                                                       \
  }
#define LEVEL(level)                                                           \
  KERNEL(norm, level)                                                          \
  KERNEL(total, level)                                                         \
  KERNEL(write, level)                                                         \
  KERNEL(count, level)                                                         \
  KERNEL(update, level)                                                        \
  KERNEL(update_1, level)

LEVEL(v3)
LEVEL(v4)
