#include "ops/GradientStep.h"
#include "tensors/Errors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>
#include <torch/csrc/stable/c/shim.h>

#include <algorithm>
#include <list>
#include <string_view>
#include <unistd.h>
#include <unordered_map>

using namespace altgrad::optim;
using at::Tensor;

// The places of a list's tensors by format, in the order of words that stock
// bundles are built with.
static std::map<std::string, std::vector<size_t>> setsOf(const CheckedList &listed) {
  std::map<std::string, std::vector<size_t>> sets;
  for (size_t i = 0; i < listed.kinds.size(); ++i)
    sets[listFormats[size_t(listed.kinds[i])]].push_back(i);
  return sets;
}

static std::shared_ptr<const Program> programOf(const CheckedList &listed, bool isHost, const std::string &flags,
                                                bool copies, const std::string &into) {
  std::vector<std::string> sets;
  for (const auto &[format, places] : setsOf(listed))
    sets.push_back("grad=" + format + (copies ? " copy=" + (into.empty() ? format : into) : ""));
  altgrad_core_request of{};
  of.flags = flags.c_str();
  of.host = isHost;
  return compileProgram(of, sets);
}

GradientStep::GradientStep(std::shared_ptr<const Program> given, const CheckedList &listed, at::Device device,
                           const std::vector<int64_t> &rows)
    : context(device), program(std::move(given)), count(listed.kinds.size()) {
  std::vector<altgrad_tensor> tensors;
  std::vector<int32_t> groups;
  for (auto &[format, own] : setsOf(listed)) {
    auto set = int32_t(places.size());
    places.push_back(own);
    groups.push_back(set);
    for (size_t place : own) {
      altgrad_tensor tensor{};
      tensor.size = sizeof tensor;
      tensor.numel = listed.numels[place];
      if (!rows.empty()) {
        tensor.rows = rows[place];
        tensor.columns = tensor.numel / tensor.rows;
      }
      tensor.group = tensor.set = set;
      tensor.tag = -1;
      tensors.push_back(tensor);
    }
  }
  c10::OptionalDeviceGuard guard(device);
  plan.reset(context.makePlan(program->bundle.get()));
  check(altgrad_set_parallel_for(plan.get(), torch_parallel_for));
  check(altgrad_bind_tensors(plan.get(), tensors.data(), int64_t(tensors.size()), int64_t(groups.size())));
  for (size_t set = 0; set < places.size(); ++set)
    for (const Stream &stream : entries(program->sets[set].states))
      kinds.push_back(
          {&stream, set, std::string(stream.key) + (stream.role == ALTGRAD_ROLE_BLOCK_SCALE ? "_scale" : ""), {}});
  if (program->sets[0].norm)
    bindNorms(int64_t(listed.kinds.size()));
  values_ = std::make_unique<Values>(*program, groups, context);
  check(altgrad_workspace(plan.get(), &bytes));
  workspace = context.allocate(int64_t(bytes));
  check(keepInGraphs(plan.get(), this));
}

void GradientStep::addTo(Owned &owned) const {
  values_->addTo(owned);
  owned.add(workspace);
  owned.add(norms);
}

void GradientStep::bindNorms(int64_t count) {
  norms = at::empty({count}, at::TensorOptions().dtype(at::kFloat).device(context.device()));
  for (size_t set = 0; set < places.size(); ++set) {
    std::vector<void *> own;
    for (size_t place : places[set])
      own.push_back(norms.data_ptr<float>() + place);
    check(altgrad_bind_scalar(plan.get(), program->sets[set].norm->name, own.data(), int64_t(own.size())));
  }
}

// The steps of this thread, the last one used first.
class GradientStep::PlanCache {
public:
  // Goes with its thread, but for the main one: that ends with its process,
  // when the driver may have gone before.
  static PlanCache &ofThread() {
    struct Holder {
      ~Holder() {
        if (gettid() != getpid())
          delete kept;
      }
      PlanCache *kept = new PlanCache;
    };
    thread_local Holder holder;
    return *holder.kept;
  }

  // The one of `key` for such lists; `programOf()` where it has to be made.
  template <typename ProgramOf>
  GradientStep &get(std::string key, const CheckedList &listed, at::Device device, const std::vector<int64_t> &rows,
                    const ProgramOf &programOf) {
    key.reserve(128);
    key += '\n';
    add(key, listed.kinds);
    add(key, listed.numels);
    add(key, rows);
    add(key, std::vector{int64_t(device.type()), int64_t(device.index())});
    if (auto found = places.find(key); found != places.end()) {
      steps.splice(steps.begin(), steps, found->second);
      return steps.front().second;
    }
    ALTGRAD_CHECK(!DeviceContext(device).isCapturing(), "altgrad: this is the first call with a list of these types "
                                                        "and sizes; a graph can be captured after one such call");
    steps.emplace_front(std::piecewise_construct, std::forward_as_tuple(key),
                        std::forward_as_tuple(programOf(), listed, device, rows));
    places.emplace(steps.front().first, steps.begin());
    tensors += steps.front().second.count;
    forget();
    return steps.front().second;
  }

private:
  // A plan has 200 bytes for a tensor.
  static constexpr size_t mostSteps = 256, mostTensors = 1 << 18;

  // Each word that differs from the one before it, and how often it is there.
  template <typename Words> static void add(std::string &key, const Words &words) {
    for (auto begin = words.begin(), end = begin; begin != words.end(); begin = end) {
      end = std::find_if(begin, words.end(), [&](auto word) { return word != *begin; });
      int64_t pair[] = {int64_t(*begin), end - begin};
      key.append(reinterpret_cast<const char *>(pair), sizeof pair);
    }
    key += '\n';
  }

  void forget() {
    auto last = std::prev(steps.end());
    while (last != steps.begin() && (steps.size() > mostSteps || tensors > mostTensors)) {
      auto own = last--;
      tensors -= own->second.count;
      places.erase(own->first);
      steps.erase(own);
    }
  }

  using Steps = std::list<std::pair<const std::string, GradientStep>>;
  Steps steps;
  size_t tensors = 0; // of all steps
  std::unordered_map<std::string_view, Steps::iterator> places;
};

GradientStep &GradientStep::of(const CheckedList &listed, at::Device device, const std::string &flags, bool copies,
                               const std::string &into, const std::vector<int64_t> &rows) {
  return PlanCache::ofThread().get(flags + (copies ? " to " : " ") + into, listed, device, rows, [&] {
    return programOf(listed, DeviceContext(device).isHost(), flags, copies, into);
  });
}

void GradientStep::bind(const Stream &stream, size_t set, const Pointers &pointers) {
  std::vector<void *> own;
  for (size_t place : places[set])
    own.push_back(reinterpret_cast<void *>(uintptr_t(pointers[place])));
  auto call = stream.block ? altgrad_bind_stream : altgrad_bind_scalar;
  check(call(plan.get(), stream.name, own.data(), int64_t(own.size())));
}

GradientResults GradientStep::run(const CheckedList &listed, const std::vector<Other> &others) {
  c10::OptionalDeviceGuard guard(context.device());
  if (bound != listed.pointers)
    for (size_t set = 0; set < places.size(); ++set)
      bind(*program->sets[set].grad, set, listed.pointers);
  bound = listed.pointers;
  for (Kind &kind : kinds)
    for (const Other &other : others)
      if (other.key == kind.key && other.pointers != kind.bound) {
        bind(*kind.stream, kind.set, other.pointers);
        kind.bound = other.pointers;
      }
  values_->send(plan.get());
  check(altgrad_run(plan.get(), workspace.data_ptr(), bytes, 0, -1, context.stream()));
  if (!context.isHost()) {
    Owned own;
    addTo(own);
    own.record(context);
  }
  auto result = [&](int32_t role) {
    for (const Scalar &single : program->singles)
      if (single.role == role && single.access == ALTGRAD_OUT)
        return context.isHost() ? at::full({}, values_->number(role), at::kFloat) : values_->tensor(role).clone();
    return Tensor();
  };
  return {norms.defined() ? norms.clone() : result(ALTGRAD_ROLE_NORM), result(ALTGRAD_ROLE_FLAG)};
}
