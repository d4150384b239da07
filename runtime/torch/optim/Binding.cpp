// Makes tables for an optimizer: everything is checked before anything is
// changed.
#include "optim/Binding.h"
#include "optim/States.h"
#include "table/JointStep.h"
#include "tensors/Errors.h"
#include "tensors/Lasting.h"

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

std::string Binding::lineOf(const MatrixOptions &of, const Tensor &param, const Matrices &matrices) {
  const Shard *shard = shardOf(param);
  const int64_t numel =
      compiler.cutsBlocks(of.unitOf(matrices), param) ? 0 : shard ? shard->numel() : param.numel();
  const at::ScalarType type = param.scalar_type();
  at::ScalarType grad = isSupported(type) ? type : at::kFloat; // those of codes may have any that numbers have
  if (param.grad().defined() && !isSupported(type) && isSupported(param.grad().scalar_type()))
    grad = param.grad().scalar_type();
  return compiler.setLine(of.rule(), of.optionsFor(matrices, units), type, grad, numel, several);
}

// Of no parameter.
std::string Binding::lineOf(const MatrixOptions &of) {
  return compiler.setLine(of.rule(), of.optionsFor({}, false), at::kFloat, at::kFloat, /*numel=*/INT64_MAX,
                          several || !of.rule().empty());
}

void Binding::findKinds(const Groups &groups) {
  units = false;
  several = std::any_of(matrixOptions.begin(), matrixOptions.end(),
                        [](const MatrixOptions &of) { return !of.rule().empty(); });
  for (size_t g = 0; !spec.matrices().empty() && g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i)
      if (const Matrices of = matrixOptions[g].of(groups[g].params()[i], {g, i}); of && of->count > 1 && !of->apart)
        units = true;
}

// What all trainable parameters of a device need, so that no gradient that
// comes or goes has the step compiled again.
std::set<std::string> Binding::linesOf(const Groups &groups, at::Device device) {
  std::set<std::string> lines;
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i)
      if (const Tensor &param = groups[g].params()[i];
          param.requires_grad() && (isSupported(param.scalar_type()) || compiler.codes() == param.scalar_type()) &&
          param.device() == device)
        lines.insert(lineOf(matrixOptions[g], param, matrixOptions[g].of(param, {g, i})));
  return lines;
}

void Binding::prepare(const Groups &groups, const std::string &otherwise) {
  at::Device device = at::kCPU;
  bool any = false;
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i) {
      const Tensor &param = groups[g].params()[i];
      if (!param.requires_grad())
        continue;
      checkParameter(param, {g, i}, compiler.codes());
      device = any ? device : param.device();
      any = true;
    }
  findKinds(groups);
  firstLines = linesOf(groups, device);
  if (firstLines.empty())
    firstLines.insert(lineOf(MatrixOptions(otherwise, spec.matrices())));
  first = compiler.compile(firstLines, DeviceContext(device).isHost(), Joined::Nothing, "");
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i)
      checkTakes(matrixOptions[g], groups[g].params()[i], {g, i});
}

void Binding::checkTakes(const MatrixOptions &of, const Tensor &param, const ParamIndex &place) {
  if (!param.requires_grad())
    return;
  checkParameter(param, place, compiler.codes());
  if (compiler.codes() == param.scalar_type() && param.grad_dtype() == param.scalar_type()) // which would round them
    param.set_grad_dtype(at::kFloat);
  const Matrices matrices = of.of(param, place);
  if (matrices || param.dim() == 2)
    return;
  const std::string line = lineOf(of, param, matrices);
  const auto found = firstLines.find(line);
  const bool isFirst = found != firstLines.end();
  const auto program =
      isFirst ? first : compiler.compile({line}, DeviceContext(param.device()).isHost(), Joined::Nothing, "");
  checkMatrices(*program, isFirst ? int32_t(std::distance(firstLines.begin(), found)) : 0, param, place);
}

c10::ArrayRef<Scalar> Binding::hypers(const MatrixOptions &of) {
  const auto found = hypersOf.find(of.rule());
  if (found != hypersOf.end())
    return found->second;
  const bool isFirst = !several && of.rule().empty();
  return hypersOf[of.rule()] =
             entries((isFirst ? first : compiler.compile({lineOf(of)}, true, Joined::Nothing, ""))->sets[0].hypers);
}

bool Binding::take(const Groups &groups, States &states) {
  if (isAsBound(groups, states))
    return false;
  bind(groups, states);
  return true;
}

// Every parameter that has a gradient, device by device, GPUs first: they work
// while the CPU does. `idle` gets the others.
std::vector<Binding::Drafts> Binding::draft(const Groups &groups, const Known &known) {
  std::map<std::pair<bool, int>, Drafts> devices;
  std::set<std::pair<std::pair<bool, int>, std::string>> stepped; // devices and sets that have a gradient
  int64_t tag = -1, more = 0;
  idle.clear();
  held.clear();
  findKinds(groups);
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t i = 0; i < groups[g].params().size(); ++i) {
      const Tensor &param = groups[g].params()[i];
      ++tag;
      ALTGRAD_CHECK(param.defined(), "altgrad: ", toString({g, i}), " is undefined");
      const Matrices matrices = matrixOptions[g].of(param, {g, i});
      const int64_t before = more;
      more += matrices && matrices->apart ? matrices->count - 1 : 0;
      const bool has = param.grad().defined();
      if (!has && !known.count(param.unsafeGetTensorImpl())) {
        idle.push_back(hold(param));
        continue;
      }
      checkParameter(param, {g, i}, compiler.codes());
      const std::pair<bool, int> device{param.is_cpu(), param.device().index()};
      const std::string line = lineOf(matrixOptions[g], param, matrices);
      if (has) {
        checkGradient(param, param.grad(), {g, i});
        stepped.insert({device, line});
      }
      devices[device].push_back({param, denseOf(param, matrices), {g, i}, matrices, line, tag, before});
    }
  std::vector<Drafts> drafts;
  for (auto &[device, of] : devices) {
    // No row is kept of a set that no gradient is in.
    Drafts kept;
    for (Draft &draft : of)
      if (stepped.count({device, draft.line}))
        kept.push_back(std::move(draft));
      else
        idle.push_back(hold(draft.param));
    if (!kept.empty())
      drafts.push_back(std::move(kept));
  }
  return drafts;
}

// Compiles the sets of one device, and brings its drafts in their order.
Binding::DevicePlan Binding::makeDevicePlan(const Groups &groups, Drafts &drafts, Joined joined) {
  at::Device device = drafts[0].param.device();
  DevicePlan part{DeviceContext(device), nullptr, {}, nullptr};
  std::set<std::string> lines;
  // A set without gradients would count draws, or decide how torch rounds a norm.
  if (!compiler.draws() && spec.profile().empty())
    lines = linesOf(groups, device);
  for (const Draft &draft : drafts)
    lines.insert(draft.line);
  part.program = compiler.compile(lines, part.context.isHost(), joined, scaler);
  for (Draft &draft : drafts) {
    draft.set = int32_t(std::distance(lines.begin(), lines.find(draft.line)));
    const bool inOrder = part.program->sets[size_t(draft.set)].places || shardOf(draft.param);
    if (inOrder && !draft.matrices && !draft.dense.is_contiguous()) {
      Lasting lasting;
      draft.dense = draft.param.contiguous();
    }
  }
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft &a, const Draft &b) { return a.set < b.set; });
  ALTGRAD_CHECK(!part.context.isCapturing(), "altgrad: the tensors of this step are not those of the last "
                                             "one; a graph can be captured after a step with the same "
                                             "parameters, gradients and options");
  // A driver or a GPU that is not as it should be refuses here.
  altgrad_plan_free(part.context.makePlan(part.program->bundle.get()));
  return part;
}

bool Binding::DevicePlan::multipliesOnDevice() const {
  auto multiplies = [](const Set &set) { return set.multiplies != 0; };
  return !context.isHost() && std::any_of(program->sets.begin(), program->sets.end(), multiplies);
}

void Binding::bind(const Groups &groups, States &states) {
  const Known known = boundRows(states);
  bound = false;
  hooks.remove();
  plans.clear();
  std::vector<Drafts> drafts = draft(groups, known);
  std::vector<DevicePlan> made;
  const bool others = drafts.size() > 1 || spec.all_gather();
  bool joined = (others && (hasNorm() || !scaler.empty())) || !shards.empty(), multiplied = false;
  for (Drafts &of : drafts) {
    made.push_back(makeDevicePlan(groups, of, joined ? Joined::Sums : Joined::Nothing));
    multiplied |= others && made.back().multipliesOnDevice();
  }
  Memory memory;
  for (size_t i = 0; i < made.size(); ++i) {
    if (multiplied) // what is wrong on one device skips the step of all
      made[i] = makeDevicePlan(groups, drafts[i], Joined::Products);
    checkStates(made[i], drafts[i], states, memory);
  }
  for (const Drafts &of : drafts)
    for (const Draft &draft : of)
      if (draft.param.grad().defined())
        memory.addGradient(draft.param.grad(), draft.place);
  memory.check();
  // Nothing is refused from here on.
  std::vector<std::vector<Row>> rows;
  for (size_t i = 0; i < made.size(); ++i)
    rows.push_back(makeRows(made[i], drafts[i], states));
  for (size_t i = 0; i < made.size(); ++i)
    commit(made[i], rows[i], states);
  for (size_t i = 0; i < made.size(); ++i) {
    DevicePlan &part = made[i];
    std::vector<int32_t> sets;
    for (const Cell &cell : part.cells)
      sets.push_back(cell.set);
    part.table = std::make_unique<TensorTable>(part.program, part.context, std::move(rows[i]), sets,
                                               i == 0 ? idle : std::vector<const Tensor *>());
    TORCH_INTERNAL_ASSERT(part.table->validate() == Change::None);
  }
  plans = std::move(made);
  bindOwn();
  if (spec.norm_in_backward())
    hooks.attach(tables());
  remember(groups, states);
}

std::vector<TensorTable *> Binding::tables() const {
  std::vector<TensorTable *> tables;
  for (const DevicePlan &part : plans)
    tables.push_back(part.table.get());
  return tables;
}

void Binding::run() {
  for (const DevicePlan &part : plans)
    part.table->values.give(ALTGRAD_ROLE_MAX_NORM, spec.max_grad_norm().value_or(0));
  if (plans.empty() && spec.all_gather() && hasNorm())
    addNothing(spec.all_gather());
  runJointStep(tables(), spec.all_gather());
  hooks.warnOfUnused();
}
