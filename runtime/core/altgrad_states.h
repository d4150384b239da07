// What a step keeps beside a parameter: how it begins, and whether what is there is that.
#ifndef ALTGRAD_CORE_ALTGRAD_STATES_H
#define ALTGRAD_CORE_ALTGRAD_STATES_H

#include "altgrad_program.h"
#include "altgrad_core.h"

#ifdef __cplusplus
extern "C" {
#endif

// The tensor that a new state is; it is the thread's until its next call.
typedef struct altgrad_core_state {
  const int64_t *sizes, *strides;
  int64_t dims;
  int32_t dtype;  // torch's number
  int32_t copies; // it begins as the parameter; else with `first`
  double first;
} altgrad_core_state;
// Of the state `index` of a set, beside a parameter whose elements are visited in the order of `strides`. `matrices` is
// NULL where nobody has said which it holds. ALTGRAD_INVALID, with what follows the parameter's name, where bytes of
// pairs would not say how the parameter lies.
ALTGRAD_API altgrad_status altgrad_core_new_state(const altgrad_core_program *program, int64_t set, int64_t index,
                                                  int64_t dims, const int64_t *sizes, const int64_t *strides,
                                                  const altgrad_core_matrices *matrices, altgrad_core_state *out);

// What the library cannot see of a state that is there.
enum {
  ALTGRAD_STATE_NOWHERE = 1, // it is a negative view, or zeros without memory
  ALTGRAD_STATE_SCALED = 2   // there are scales behind its key
};
// ALTGRAD_INVALID, with a sentence, where a state cannot be that. It may be narrower than the step stores it.
ALTGRAD_API altgrad_status altgrad_core_check_state(const altgrad_core_program *program, int64_t set, int64_t index,
                                                    AtenTensorHandle state, int32_t facts, AtenTensorHandle param,
                                                    const int64_t *strides, const altgrad_core_matrices *matrices);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_ALTGRAD_STATES_H
