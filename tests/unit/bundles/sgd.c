// A bundle written by hand: SGD with a global norm, a step count and a bf16
// copy.
#include "altgrad/bundle.h"
#include "manifest.h"

#include <string.h>

#ifndef STEP
#define STEP "sgd"
#endif

#ifndef VERSION
#define VERSION "5"
#endif

int64_t altgrad_prefetch = -1;

// clang-format off
const char altgrad_manifest[] =
    "{\"altgrad\": " VERSION ", \"step\": \"" STEP "\","
    " \"producer\": \"a hand\","
    " \"host\": [\"v3\", \"v4\"], \"ptx\": [\"sm_80\", \"sm_90\"],"
    " \"sets\": 1, \"units\": [\"none\"], \"row_words\": 15, \"inputs\": 1,"
    " \"streams\": ["
    STREAM("grads", "grad", "grad", "in", "f32", 32, 1, 0, 0) ","
    STREAM("master", "master", "master", "inout", "f32", 32, 1, 0, 0) ","
    STREAM("model", "model", "param", "out", "bf16", 16, 1, 1, 0) "],"
    " \"scalars\": ["
    SCALAR("lr", "lr", "hyper", "in", "f64", "group", 0, 0, 0.001) ","
    SCALAR("t", "step", "step", "inout", "i64", "tensor", 2, 0, null) ","
    SCALAR("gnorm", "norm", "norm", "out", "f32", "step", 0, null, null) "],"
    " \"group_scalars\": 1, \"step_scalars\": 1,"
    " \"workspace\": {\"step_words\": 1, \"row_words\": 1,"
    "                 \"chunk_words\": 1, \"spills\": 1},"
    " \"phases\": ["
#ifdef FINISHES
    LAUNCH("norm", "altgrad_sgd_norm", "sweep", "chunks", 0, 8, 2, 4, 0) ","
#else
    PHASE("norm", "altgrad_sgd_norm", "sweep", "chunks", 0, 8, 4, 0) ","
#endif
    PHASE("total", "altgrad_sgd_total", "total", "once", null, 1, 0, 0) ","
    PHASE("advance", "altgrad_sgd_advance", "scalars", "rows", null, 256, 0, 0)
    ","
    PHASE("update", "altgrad_sgd_update", "sweep", "chunks", 0, 1, 8, 6) "],"
    " \"exchanges\": [], \"partials\": [{\"phase\": 3, \"set\": 0,"
    "               \"word\": 0, \"reduction\": \"max\"}], \"warnings\": []}";
// clang-format on

// Kernels that do nothing: the tests run the host's code in their place.
#define WORD(n) ".param .u64 p" #n
// clang-format off
#define ENTRY(name)                                                            \
  ".visible .entry altgrad_sgd_" name "("                                      \
  WORD(0) "," WORD(1) "," WORD(2) "," WORD(3) "," WORD(4) "," WORD(5) ","      \
  WORD(6) "," WORD(7) "," WORD(8) "," WORD(9) "," WORD(10) "," WORD(11) ","    \
  WORD(12) "," WORD(13) "," WORD(14) ")\n.maxntid 256, 1, 1\n{\nret;\n}\n"
#define PTX(target)                                                            \
  "// ptx for " target "\n.version 7.8\n.target " target "\n"                  \
  ".address_size 64\n"                                                         \
  ENTRY("norm") ENTRY("total") ENTRY("advance") ENTRY("update")
// clang-format on
const char altgrad_ptx_sm_80[] = PTX("sm_80");
const char altgrad_ptx_sm_90[] = PTX("sm_90");
#ifdef CUBIN
const char altgrad_cubin_sm_90[] = "cubin of // in the bundle\n" PTX("sm_90");
#endif

enum { rowWords = 15 };

static const uint64_t *rowOf(const altgrad_args *a, int64_t chunk) {
  return a->rows + a->chunks[chunk].row * rowWords;
}

static int64_t endOf(const altgrad_args *a, int64_t chunk) {
  int64_t numel = (int64_t)rowOf(a, chunk)[ALTGRAD_ROW_NUMEL];
  int64_t end = a->chunks[chunk].first + ALTGRAD_CHUNK;
  return end < numel ? end : numel;
}

// Leaves the squares in the spill area and their sum in the chunk word.
static void squares(const altgrad_args *a, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    int64_t first = a->chunks[c].first;
    const float *g = (const float *)a->inputs[a->chunks[c].row];
    float *spill = a->spills + c * ALTGRAD_CHUNK, sum = 0;
    for (int64_t i = first; i < endOf(a, c); ++i)
      sum += spill[i - first] = g[i] * g[i];
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
  memcpy(a->step_words, &sum, 4);
  *(float *)a->scalars[0] = sum;
}

static void advance(const altgrad_args *a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const uint64_t *row = a->rows + r * rowWords;
    float rate = (float)*(const double *)a->groups[row[ALTGRAD_ROW_GROUP]];
    *(int64_t *)row[ALTGRAD_ROW_HEADER + 2] += 1;
    memcpy(a->row_words + r, &rate, 4);
  }
}

// Goes on to the next two phases where it is asked to.
static void norm(const altgrad_args *a, int64_t begin, int64_t end) {
  squares(a, begin, end);
  if (!a->finished)
    return;
  total(a, 0, 1);
  advance(a, 0, a->nrows);
}

static void update(const altgrad_args *a, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const uint64_t *row = rowOf(a, c);
    const float *g = (const float *)a->inputs[a->chunks[c].row];
    float *w = (float *)row[ALTGRAD_ROW_HEADER];
    uint16_t *model = (uint16_t *)row[ALTGRAD_ROW_HEADER + 1];
    float rate;
    memcpy(&rate, a->row_words + a->chunks[c].row, 4);
    for (int64_t i = a->chunks[c].first; i < endOf(a, c); ++i) {
      uint32_t bits;
      w[i] -= rate * g[i];
      memcpy(&bits, w + i, 4);
      model[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
  }
}

#define KERNEL(name, level)                                                    \
  void altgrad_sgd_##name##_##level(const altgrad_args *a, int64_t begin,      \
                                    int64_t end) {                             \
    name(a, begin, end);                                                       \
  }
#define LEVEL(level)                                                           \
  KERNEL(norm, level)                                                          \
  KERNEL(total, level)                                                         \
  KERNEL(advance, level)                                                       \
  KERNEL(update, level)

#ifndef NO_V3
LEVEL(v3)
#endif
LEVEL(v4)
