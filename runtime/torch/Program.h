// A rule compiled for one parameter type, and what its manifest says.
#ifndef ALTGRAD_TORCH_PROGRAM_H
#define ALTGRAD_TORCH_PROGRAM_H

#include "altgrad/altgrad.h"
#include "altgrad/rule_spec.h"

#include <c10/core/ScalarType.h>

#include <memory>
#include <vector>

namespace altgrad::optim {

// What a stream is bound to.
enum class Role { Param, Grad, State, Master, Copy };

struct Stream {
  std::string name;
  Role role;
  c10::ScalarType type;
  std::string key; // in RuleParamState; "" for parameter and gradient
};

struct Hyper {
  std::string name;
  std::optional<double> byDefault;
};

struct Program {
  std::shared_ptr<altgrad_bundle> bundle;
  std::vector<Stream> streams;
  std::vector<Hyper> hypers;
  std::string step; // name of the step count; "" where the rule has none
  std::string stepKey;
  c10::ScalarType stepType = c10::ScalarType::Long;
  int64_t normPhases = 0; // after these phases a clipped step knows its norm
};

// Throws what the runtime says when `status` is not ALTGRAD_OK.
void check(altgrad_status status);

// `options`: compile-time options by commas.
std::shared_ptr<const Program> compile(const RuleSpec &spec,
                                       const std::string &options,
                                       c10::ScalarType paramType);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_PROGRAM_H
