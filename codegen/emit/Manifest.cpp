// The manifest of a bundle: what the runtime and people need to know of it.
#include "codegen/emit/Manifest.h"

#include "altgrad/bundle.h"
#include "codegen/kernels/KernelBuilder.h"

using namespace mlir;
using namespace altgrad;

static std::string formatName(FormatAttr format) {
  if (StringRef name = format.getKnownName(); !name.empty())
    return name.str();
  std::string text;
  llvm::raw_string_ostream(text) << format;
  return text;
}

// A set, or null: of the step, or of every set.
static llvm::json::Value setOf(std::optional<unsigned> set) {
  return set ? llvm::json::Value(*set) : llvm::json::Value(nullptr);
}

// What streams and scalars are both described by.
static llvm::json::Object describe(StepOp step, const Binding &binding) {
  BlockArgument argument = binding.argument;
  return llvm::json::Object{
      {"name", step.getName(argument)}, {"key", step.getKey(argument)},
      {"role", step.getRole(argument)}, {"access", step.getAccess(argument)},
      {"slot", binding.slot},           {"set", setOf(binding.set)}};
}

static llvm::json::Object describeStream(StepOp step, const Binding &binding) {
  auto tensors = cast<TensorsType>(binding.argument.getType());
  FormatAttr format = tensors.getFormat();
  llvm::json::Object stream = describe(step, binding);
  stream["format"] = formatName(format);
  stream["bits"] = format.getBytes() * 8;
  stream["block"] = tensors.getBlock();
  return stream;
}

static llvm::json::Object describeScalar(StepOp step, const Binding &binding) {
  BlockArgument argument = binding.argument;
  std::string type;
  llvm::raw_string_ostream(type) << argument.getType();
  llvm::json::Object scalar = describe(step, binding);
  scalar["type"] = type;
  scalar["scope"] = stringifyScope(step.getScope(argument));
  FloatAttr value = step.getDefault(argument);
  scalar["default"] = value ? llvm::json::Value(value.getValueAsDouble())
                            : llvm::json::Value(nullptr);
  return scalar;
}

static int64_t perBlock(const Phase &phase) {
  if (phase.domain == Domain::Once)
    return 1;
  // A warp does a chunk or folds a row; a thread does the scalars of a row.
  return phase.kind == Phase::Scalars ? ALTGRAD_BLOCK_THREADS
                                      : ALTGRAD_BLOCK_THREADS / 32;
}

static llvm::json::Object describePhase(StepOp step, const Phase &phase) {
  SweepOp sweep = phase.sweep;
  return llvm::json::Object{{"name", phase.name},
                            {"symbol", symbolOf(step, phase)},
                            {"kind", stringifyKind(phase.kind)},
                            {"domain", stringifyDomain(phase.domain)},
                            {"set", setOf(phase.set)},
                            {"per_block", perBlock(phase)},
                            {"read", sweep ? sweep.getBytesRead() : 0},
                            {"written", sweep ? sweep.getBytesWritten() : 0}};
}

// Before the phase that follows a total, its words may be combined with
// others'.
static llvm::json::Array describeExchanges(const PhasePlan &plan) {
  llvm::json::Array exchanges;
  for (auto [index, phase] : llvm::enumerate(plan.phases)) {
    if (phase.kind != Phase::Total)
      continue;
    llvm::json::Array words;
    for (const Partial &partial : phase.folds) {
      SweepOp sweep = partial.sweep;
      words.push_back(llvm::json::Object{
          {"word", plan.slots.lookup(sweep.getReduced()[partial.result]).index},
          {"reduction",
           stringifyReduction(sweep.getReduction(partial.result))}});
    }
    exchanges.push_back(llvm::json::Object{{"phase", int64_t(index + 1)},
                                           {"words", std::move(words)}});
  }
  return exchanges;
}

llvm::json::Object altgrad::writeManifest(StepOp step, const PhasePlan &plan,
                                          ArrayRef<const Target *> targets) {
  llvm::json::Array streams, scalars, phases, host, ptx;
  Layout layout = layoutOf(step);
  for (const Binding &binding : layout.bindings)
    if (binding.isStream)
      streams.push_back(describeStream(step, binding));
    else
      scalars.push_back(describeScalar(step, binding));
  for (const Phase &phase : plan.phases)
    phases.push_back(describePhase(step, phase));
  for (const Target *target : targets)
    (target->isPtx() ? ptx : host)
        .push_back(target->isPtx() ? target->name : target->suffix);
  return llvm::json::Object{
      {"altgrad", int(ALTGRAD_ABI)},
      {"producer", "altgrad " ALTGRAD_VERSION},
      {"step", step.getSymName()},
      {"host", std::move(host)},
      {"ptx", std::move(ptx)},
      {"row_words", ALTGRAD_ROW_HEADER + layout.rowPointers},
      {"inputs", layout.inputs},
      {"sets", plan.sets.count()},
      {"group_scalars", layout.groupScalars},
      {"step_scalars", layout.stepScalars},
      {"streams", std::move(streams)},
      {"scalars", std::move(scalars)},
      {"workspace", llvm::json::Object{{"step_words", plan.stepWords},
                                       {"row_words", plan.rowWords},
                                       {"chunk_words", plan.chunkWords},
                                       {"spills", plan.spills.size()}}},
      {"phases", std::move(phases)},
      {"exchanges", describeExchanges(plan)}};
}

// Copy rates of performance.md: datasheet peak times what a copy reaches.
static constexpr struct {
  llvm::StringLiteral name;
  double bytesPerSecond;
} machines[] = {{"H200", 4.3e12}, {"A100-80GB", 1.75e12}};

namespace {
struct Traffic { // bytes per element
  double read = 0, written = 0;
  double both() const { return read + written; }
};
} // namespace

static std::vector<Traffic> trafficOf(const PhasePlan &plan) {
  std::vector<Traffic> traffic(plan.sets.count());
  for (const Phase &phase : plan.phases)
    if (SweepOp sweep = phase.sweep) {
      traffic[*phase.set].read += sweep.getBytesRead();
      traffic[*phase.set].written += sweep.getBytesWritten();
    }
  return traffic;
}

static void writePhase(llvm::raw_ostream &out, const Phase &phase, bool sets) {
  out << "  " << llvm::left_justify(phase.name, 10) << " "
      << llvm::left_justify(stringifyDomain(phase.domain), 7);
  if (SweepOp sweep = phase.sweep)
    out << formatBytes(sweep.getBytesRead()) << " read, "
        << formatBytes(sweep.getBytesWritten()) << " written";
  else if (phase.kind == Phase::Fold)
    out << phase.folds.size() << " reductions";
  else
    out << phase.ops.size() << " scalar operations";
  if (sets && phase.set)
    out << ", set " << *phase.set;
  out << "\n";
}

std::string altgrad::writeReport(StepOp step, const PhasePlan &plan) {
  std::string text;
  llvm::raw_string_ostream out(text);
  std::vector<Traffic> traffic = trafficOf(plan);
  bool sets = traffic.size() > 1;
  auto count = llvm::count_if(plan.phases, [](const Phase &phase) {
    return phase.kind == Phase::Sweep;
  });
  out << "step " << step.getSymName() << ": " << count
      << (count == 1 ? " sweep, " : " sweeps, ");
  auto bytes = [&](const Traffic &set) {
    out << formatBytes(set.both()) << " bytes per element ("
        << formatBytes(set.read) << " read, " << formatBytes(set.written)
        << " written)";
  };
  if (sets)
    out << traffic.size() << " sets of tensors";
  else
    bytes(traffic[0]);
  out << ", " << plan.phases.size()
      << (plan.phases.size() == 1 ? " launch\n" : " launches\n");
  for (const Phase &phase : plan.phases)
    writePhase(out, phase, sets);
  for (auto [index, set] : llvm::enumerate(traffic)) {
    if (sets) {
      out << "  set " << index << ": ";
      bytes(set);
      out << "\n";
    }
    for (const auto &machine : machines)
      out << llvm::formatv("  at the copy rate of {0}: {1:F2} ms for 10^9 "
                           "elements\n",
                           machine.name,
                           set.both() * 1e9 / machine.bytesPerSecond * 1e3);
  }
  return text;
}
