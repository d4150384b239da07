// Kernels on their way: in the interpreter, one after the other or, by
// programmatic dependent launch, with the beginning of the next one first.
#include "Fake.h"

#include <algorithm>

using namespace fakecuda;

namespace {

Result codeOf(ptx::FaultKind kind) {
  switch (kind) {
  case ptx::FaultKind::OutOfBounds:
  case ptx::FaultKind::ReadOnly:
    return IllegalAddress;
  case ptx::FaultKind::Misaligned:
    return MisalignedAddress;
  case ptx::FaultKind::WrongStateSpace:
    return AddressSpace;
  case ptx::FaultKind::StepLimit:
    return LaunchTimeout;
  default:
    return LaunchFailed;
  }
}

} // namespace

Running::Running(const Launch &launch, Context &context)
    : launch(launch), context(context) {}

Result Running::prepare(uint32_t before) {
  State &s = state();
  const std::string &name = launch.kernel->name;
  if (launch.module->unloaded)
    return fault(LaunchFailed,
                 "kernel '" + name + "': its module has been unloaded");
  auto waits = [](const ptx::Instruction &i) {
    return i.form->name == "griddepcontrol.wait";
  };
  const auto &code = launch.kernel->code;
  if (launch.overlaps && std::none_of(code.begin(), code.end(), waits))
    return fault(LaunchFailed, "kernel '" + name +
                                   "' may overlap with the one before it, and "
                                   "never waits for it");
  if (s.onLaunch)
    return 0;
  ptx::LaunchOptions &options = launch.options;
  if (s.get("seed")) {
    options.order = ptx::BlockOrder::Shuffled;
    options.seed = s.next() % 1000003;
    options.residentBlocks = uint32_t(s.next() % 4 + 1);
  }
  options.follows = launch.overlaps && before;
  options.before = before;
  if (int64_t how = s.get("caches")) {
    if (!context.caches)
      context.caches =
          std::make_unique<ptx::Caches>(uint32_t(s.get("processors")));
    context.caches->everywhere = how == 1;
    options.caches = context.caches.get();
    if (!options.follows)
      options.caches->begin(uint64_t(options.grid[0]) * options.grid[1] *
                            options.grid[2]);
  }
  launch.module->globals.beyond = &memoryOf(context.device);
  machine = std::make_unique<ptx::Machine>(
      *launch.module->program, *launch.kernel, launch.module->globals, options);
  return 0;
}

Result Running::check(const ptx::LaunchResult &result) const {
  if (result.fault == ptx::FaultKind::None)
    return 0;
  return fault(codeOf(result.fault),
               "kernel '" + launch.kernel->name + "' on cuda:" +
                   std::to_string(context.device) + ": " + result.message);
}

// As much as the rules allow: up to its waits, before the one before it does
// anything. That one lets it in first thing.
Result Running::begin(Running &other, uint32_t lastKernel) {
  State &s = state();
  if (!launch.overlaps || s.onLaunch || (s.get("seed") && s.next() % 4 == 0))
    return 0;
  if (!other.machine)
    if (Result error = other.prepare(lastKernel))
      return error;
  if (Result error = prepare(other.number()))
    return error;
  ++s.overlapped;
  uint32_t blocks = s.get("seed") ? uint32_t(s.next() % 6 + 1) : 4;
  try {
    if (Result error = check(machine->begin(blocks)))
      return error;
  } catch (const std::exception &error) { // the interpreter's own
    return fault(LaunchFailed,
                 "kernel '" + launch.kernel->name + "': " + error.what());
  }
  other.machine->overlapWith(number());
  return 0;
}

Result Running::run(uint32_t before) {
  State &s = state();
  if (!machine)
    if (Result error = prepare(before))
      return error;
  ++s.executed;
  if (s.onLaunch) {
    fakecuda_launch told{launch.kernel->name.c_str(),
                         {},
                         {},
                         launch.stream,
                         context.device,
                         launch.options.parameters.data(),
                         launch.options.parameters.size()};
    for (size_t i = 0; i < 3; ++i) {
      told.grid[i] = launch.options.grid[i];
      told.block[i] = launch.options.block[i];
    }
    s.onLaunch(&told);
    return 0;
  }
  ptx::LaunchResult result;
  try {
    result = machine->run();
  } catch (const std::exception &error) { // the interpreter's own
    return fault(LaunchFailed,
                 "kernel '" + launch.kernel->name + "': " + error.what());
  }
  s.instructions += int64_t(result.steps);
  ++s.settings.at("clock");
  return check(result);
}

extern "C" {

int fakecuda_launch_at(size_t index, fakecuda_launch *out) {
  std::lock_guard<std::recursive_mutex> held(lock());
  if (index >= state().launches.size())
    return 0;
  const Launch &launch = state().launches[index];
  *out = {launch.kernel->name.c_str(),
          {},
          {},
          launch.stream,
          launch.module->context->device,
          launch.options.parameters.data(),
          launch.options.parameters.size()};
  for (int i = 0; i < 3; ++i) {
    out->grid[i] = launch.options.grid[size_t(i)];
    out->block[i] = launch.options.block[size_t(i)];
  }
  return 1;
}

void fakecuda_clear_launches(void) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().launches.clear();
}

void fakecuda_on_launch(void (*run)(const fakecuda_launch *)) {
  std::lock_guard<std::recursive_mutex> held(lock());
  state().onLaunch = run;
}

} // extern "C"
