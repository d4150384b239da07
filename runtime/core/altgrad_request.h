// A step as an optimizer asks the compiler for it: one call for every front end.
#ifndef ALTGRAD_CORE_ALTGRAD_REQUEST_H
#define ALTGRAD_CORE_ALTGRAD_REQUEST_H

#include "altgrad_program.h"

#ifdef __cplusplus
extern "C" {
#endif

// A text that is NULL or empty asks for nothing.
typedef struct altgrad_core_request {
  const char *const *sets; // their lines, as altgrad_core_set_line makes them
  int64_t count;
  const char *text; // `size` bytes of MLIR with the rules; without it they are stock rules, or on `rule_path`
  uint64_t size;
  const char *origin;      // what diagnostics call the text
  const char *rule_path;   // folders of further rules, separated by colons
  const char *clip;        // the kind of the bound: "norm", "percentile", "agc" or "agc-unit"
  const char *numerics;    // "torch"
  const char *loss_scaler; // its variant
  const char *flags;       // further options, a line each: of a step over gradients alone
  const char *compiler;    // the path of altgrad-opt
  const char *keys;        // "state=key" for each state that is kept under another name than the rule's
  int32_t scaler;          // torch's GradScaler says scale and verdict
  int32_t statistics;
  int32_t exchange; // other devices or ranks take part
  int32_t products; // and hear of products that are wrong here
  int32_t host;     // the CPU's code; else that of GPUs
  int32_t alone;    // no other rank may find other products faster, where $ALTGRAD_CUDA_PRODUCTS is "auto"
  const char *entry; // of the rules, in their place
} altgrad_core_request;

// altgrad_compile; for GPUs once more, with products of its own, where the step multiplies and $ALTGRAD_CUDA_PRODUCTS
// says so. ALTGRAD_BROKEN where the step has something that no optimizer can give it, or needs a number of which the
// request says nothing; ALTGRAD_INVALID where two states would be kept under one key.
ALTGRAD_API altgrad_status altgrad_core_compile(const altgrad_core_request *of, const altgrad_core_program **out);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_ALTGRAD_REQUEST_H
