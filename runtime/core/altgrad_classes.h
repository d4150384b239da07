// The optimizers that front ends have by name.
#ifndef ALTGRAD_CORE_ALTGRAD_CLASSES_H
#define ALTGRAD_CORE_ALTGRAD_CLASSES_H

#include "altgrad/altgrad.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct altgrad_core_class {
  const char *name;
  const char *rule;     // its template
  const char *storage;  // the words of its storage
  const char *keys;     // "state=key" for each state of the rule, in the rule's order
  const char *matrices; // what matrices of a parameter are, as RuleSpec::matrices
} altgrad_core_class;
// NULL for the name of none.
ALTGRAD_API const altgrad_core_class *altgrad_core_class_of(const char *name);

#ifdef __cplusplus
}
#endif

#endif // ALTGRAD_CORE_ALTGRAD_CLASSES_H
