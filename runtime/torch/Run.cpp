// Runs the plans of a step; one global norm over all of them.
#include "Binding.h"

#include <cmath>

using namespace altgrad::optim;

static void runPhases(Plan &plan, int64_t first, int64_t last) {
  check(altgrad_run(plan.handle.get(), plan.workspace, plan.bytes, first, last,
                    nullptr));
}

// A plan scales by maxNorm / (its own norm + 1e-6), at most 1: each gets the
// bound that makes this the common ratio.
void Binding::runClipped() {
  double squares = 0, most = *spec.max_grad_norm();
  for (auto &plan : plans) {
    runPhases(*plan, 0, plan->program->normPhases);
    squares += double(plan->norm) * plan->norm;
  }
  norm = float(std::sqrt(squares));
  double ratio = most / (norm + 1e-6);
  if (ratio > 1) // a NaN stays
    ratio = 1;
  for (auto &plan : plans) {
    // 0 times an infinite norm would be NaN.
    plan->maxNorm = ratio == 0 ? 0 : float(ratio * (plan->norm + 1e-6));
    runPhases(*plan, plan->program->normPhases - 1, -1);
  }
}

void Binding::run() {
  for (auto &plan : plans)
    for (const Stream &stream : plan->program->streams)
      if (stream.role == Role::Grad)
        check(altgrad_bind_stream(plan->handle.get(), stream.name.c_str(),
                                  const_cast<void *const *>(plan->grads.data()),
                                  int64_t(plan->grads.size())));
  for (const Slot &slot : slots)
    if (slot.plan)
      slot.param->bump_version();
  norm = 0;
  for (auto &plan : plans)
    plan->maxNorm = float(spec.max_grad_norm().value_or(0));
  if (spec.max_grad_norm() && plans.size() > 1)
    runClipped();
  else
    for (auto &plan : plans) {
      runPhases(*plan, 0, -1);
      norm = plan->norm;
    }
  copies.clear();
}
