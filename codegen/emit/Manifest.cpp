// The manifest of a bundle: what the runtime and people need to know of it.
#include "codegen/emit/Emit.h"

#include "altgrad/bundle.h"
#include "codegen/kernels/KernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace altgrad;

// The argument whose content a value is, through dequantize, unscale, clip.
static BlockArgument sourceOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto clip = dyn_cast<ClipOp>(op))
      value = clip.getValues()[cast<OpResult>(value).getResultNumber()];
    else if (isa<DequantizeOp, UnscaleOp, arith::AddIOp, arith::AddFOp,
                 arith::FPToSIOp>(op))
      value = op->getOperand(0);
    else
      return {};
  }
  return cast<BlockArgument>(value);
}

namespace {
struct Roles {
  DenseMap<Value, std::string> names;
  DenseMap<Value, double> fallbacks;

  void add(Value value, StringRef role) {
    if (BlockArgument argument = sourceOf(value))
      names.try_emplace(argument, role.str());
  }
};
} // namespace

static Roles findRoles(StepOp step,
                       llvm::function_ref<RuleOp(UpdateOp)> ruleOf) {
  Roles roles;
  for (auto update : step.getBody().getOps<UpdateOp>()) {
    roles.add(update.getParam(), "param");
    roles.add(update.getGrad(), "grad");
    for (Value state : update.getStates())
      roles.add(state, "state");
    if (update.getStep())
      roles.add(update.getStep(), "step");
    RuleOp rule = ruleOf(update);
    for (auto [index, value] : llvm::enumerate(update.getHypers())) {
      roles.add(value, "hyper");
      if (!rule || index >= rule.getByRole("hyper").size())
        continue;
      if (auto number = dyn_cast_or_null<FloatAttr>(
              rule.getDefault(rule.getByRole("hyper")[index])))
        if (auto argument = dyn_cast<BlockArgument>(value))
          roles.fallbacks[argument] = number.getValueAsDouble();
    }
  }
  return roles;
}

static std::string formatName(FormatAttr format) {
  if (StringRef name = format.getKnownName(); !name.empty())
    return name.str();
  std::string text;
  llvm::raw_string_ostream(text) << format;
  return text;
}

Signature altgrad::describeStep(StepOp step,
                                llvm::function_ref<RuleOp(UpdateOp)> ruleOf) {
  Signature signature;
  signature.step = step.getSymName().str();
  signature.layout = layoutOf(step);
  Roles roles = findRoles(step, ruleOf);
  for (const Binding &binding : signature.layout.bindings) {
    BlockArgument argument = binding.argument;
    std::string name = step.getName(argument).str();
    std::string access = step.getAccess(argument).str();
    std::string role = roles.names.lookup(argument);
    if (auto tensors = dyn_cast<TensorsType>(argument.getType())) {
      FormatAttr format = tensors.getFormat();
      signature.streams.push_back({name, access, role, formatName(format),
                                   format.getBytes(), binding.slot,
                                   step.getSet(argument)});
      continue;
    }
    std::string type;
    llvm::raw_string_ostream(type) << argument.getType();
    std::optional<double> fallback;
    if (auto it = roles.fallbacks.find(argument); it != roles.fallbacks.end())
      fallback = it->second;
    signature.scalars.push_back({name, access, type,
                                 stringifyScope(step.getScope(argument)).str(),
                                 role, fallback, binding.slot});
  }
  return signature;
}

static int64_t perBlock(const Phase &phase) {
  if (phase.domain == Domain::Once)
    return 1;
  // A warp does a chunk or folds a row; a thread does the scalars of a row.
  return phase.kind == Phase::Scalars ? ALTGRAD_BLOCK_THREADS
                                      : ALTGRAD_BLOCK_THREADS / 32;
}

llvm::json::Object
altgrad::writeManifest(const Signature &signature, StepOp sweeps,
                       const PhasePlan &plan,
                       ArrayRef<const Target *> targets) {
  llvm::json::Array streams, scalars, phases, host, ptx;
  for (const Signature::Stream &stream : signature.streams)
    streams.push_back(llvm::json::Object{
        {"name", stream.name},     {"role", stream.role},
        {"access", stream.access}, {"format", stream.format},
        {"bytes", stream.bytes},   {"slot", stream.slot},
        {"set", stream.set}});
  for (const Signature::Scalar &scalar : signature.scalars)
    scalars.push_back(llvm::json::Object{
        {"name", scalar.name},
        {"role", scalar.role},
        {"access", scalar.access},
        {"type", scalar.type},
        {"scope", scalar.scope},
        {"slot", scalar.slot},
        {"default", scalar.fallback ? llvm::json::Value(*scalar.fallback)
                                    : llvm::json::Value(nullptr)}});
  for (const Phase &phase : plan.phases) {
    SweepOp sweep = phase.sweep;
    phases.push_back(llvm::json::Object{
        {"name", phase.name},
        {"symbol", symbolOf(sweeps, phase)},
        {"domain", stringifyDomain(phase.domain)},
        {"set", phase.set ? llvm::json::Value(*phase.set)
                          : llvm::json::Value(nullptr)},
        {"per_block", perBlock(phase)},
        {"read", sweep ? sweep.getBytesRead() : 0},
        {"written", sweep ? sweep.getBytesWritten() : 0}});
  }
  for (const Target *target : targets)
    (target->isPtx() ? ptx : host)
        .push_back(target->isPtx() ? target->name : target->suffix);
  const Layout &layout = signature.layout;
  return llvm::json::Object{
      {"altgrad", 1},
      {"producer", "altgrad " ALTGRAD_VERSION},
      {"step", signature.step},
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
      {"phases", std::move(phases)}};
}

// Of the 4.8 and 1.94 TB/s in NVIDIA's datasheets a copy reaches about nine tenths.
static constexpr struct {
  llvm::StringLiteral name;
  double bytesPerSecond;
} machines[] = {{"H200", 4.3e12}, {"A100-80GB", 1.75e12}};

namespace {
struct Traffic { // bytes per element
  unsigned read = 0, written = 0;
  unsigned both() const { return read + written; }
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
    out << sweep.getBytesRead() << " read, " << sweep.getBytesWritten()
        << " written";
  else if (phase.kind == Phase::Fold)
    out << phase.folds.size() << " reductions";
  else
    out << phase.ops.size() << " scalar operations";
  if (sets && phase.set)
    out << ", set " << *phase.set;
  out << "\n";
}

std::string altgrad::writeReport(const Signature &signature, StepOp sweeps,
                                 const PhasePlan &plan) {
  std::string text;
  llvm::raw_string_ostream out(text);
  std::vector<Traffic> traffic = trafficOf(plan);
  bool sets = traffic.size() > 1;
  auto count = llvm::count_if(plan.phases, [](const Phase &phase) {
    return phase.kind == Phase::Sweep;
  });
  out << "step " << signature.step << ": " << count
      << (count == 1 ? " sweep, " : " sweeps, ");
  auto bytes = [&](const Traffic &set) {
    out << set.both() << " bytes per element (" << set.read << " read, "
        << set.written << " written)";
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
