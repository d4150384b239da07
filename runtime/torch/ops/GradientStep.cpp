#include "ops/GradientStep.h"

#include "tensors/Threads.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <list>
#include <tuple>

using namespace altgrad::optim;
using at::Tensor;

// In the order of words that stock bundles are built with.
static std::string optionsFor(const std::vector<std::string> &formats,
                              bool isHost, const std::string &flags,
                              bool copies, const std::string &into) {
  std::string options;
  for (const std::string &format : formats)
    options += "--set=grad=" + format +
               (copies ? " copy=" + (into.empty() ? format : into) : "") + "\n";
  return options + targetsFor(isHost) + "\n" + flags;
}

GradientStep::GradientStep(const Listed &listed, at::Device device,
                           const std::string &flags, bool copies,
                           const std::string &into,
                           const std::vector<int64_t> &rows)
    : where(device) {
  TORCH_CHECK(!where.isCapturing(),
              "altgrad: this is the first call with a list of these types and "
              "sizes; a graph can be captured after one such call");
  std::map<std::string, std::vector<size_t>> sets;
  for (size_t i = 0; i < listed.kinds.size(); ++i)
    sets[listFormats[size_t(listed.kinds[i])]].push_back(i);
  std::vector<std::string> formats;
  std::vector<altgrad_tensor> tensors;
  std::vector<int32_t> groups;
  for (auto &[format, own] : sets) {
    auto set = int32_t(formats.size());
    formats.push_back(format);
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
  program =
      compileProgram(optionsFor(formats, where.isHost(), flags, copies, into));
  c10::OptionalDeviceGuard guard(device);
  plan.reset(where.makePlan(program->bundle.get()));
  check(altgrad_set_parallel_for(plan.get(), runOnThreads));
  check(altgrad_bind_tensors(plan.get(), tensors.data(),
                             int64_t(tensors.size()), int64_t(groups.size())));
  if (program->sets[0].norm)
    bindNorms(int64_t(listed.kinds.size()));
  values_ = std::make_unique<Values>(*program, groups, where);
  check(altgrad_workspace(plan.get(), &bytes));
  workspace = std::make_shared<at::DataPtr>(where.allocate(bytes));
}

void GradientStep::bindNorms(int64_t count) {
  norms = at::empty(
      {count}, at::TensorOptions().dtype(at::kFloat).device(where.device()));
  for (size_t set = 0; set < places.size(); ++set) {
    std::vector<void *> own;
    for (size_t place : places[set])
      own.push_back(norms.data_ptr<float>() + place);
    check(altgrad_bind_scalar(plan.get(), program->sets[set].norm->name.c_str(),
                              own.data(), int64_t(own.size())));
  }
}

GradientStep &GradientStep::of(const Listed &listed, at::Device device,
                               const std::string &flags, bool copies,
                               const std::string &into,
                               const std::vector<int64_t> &rows) {
  constexpr size_t most = 32;
  using Key = std::tuple<std::string, bool, std::string, std::string,
                         std::vector<int64_t>, std::vector<int64_t>>;
  // The last one used comes first. Never destroyed: when a thread ends with its
  // process, the driver may have gone before.
  thread_local auto &kept = *new std::list<std::pair<Key, GradientStep>>;
  Key key(flags + " " + into, copies, device.str(), listed.kinds, listed.numels,
          rows);
  auto found = std::find_if(kept.begin(), kept.end(),
                            [&](auto &one) { return one.first == key; });
  if (found == kept.end()) {
    kept.emplace_front(
        std::piecewise_construct, std::forward_as_tuple(key),
        std::forward_as_tuple(listed, device, flags, copies, into, rows));
    // A graph replays what lies in its plan's memory.
    auto last = std::prev(kept.end());
    if (kept.size() > most && !last->second.captured)
      kept.erase(last);
  } else {
    kept.splice(kept.begin(), kept, found);
  }
  return kept.front().second;
}

void GradientStep::bind(const Stream &stream, size_t set,
                        const std::vector<uint64_t> &pointers) {
  std::vector<void *> own;
  for (size_t place : places[set])
    own.push_back(reinterpret_cast<void *>(uintptr_t(pointers[place])));
  auto call = stream.block ? altgrad_bind_stream : altgrad_bind_scalar;
  check(call(plan.get(), stream.name.c_str(), own.data(), int64_t(own.size())));
}

GradientResults GradientStep::run(const Listed &listed,
                                  const std::map<std::string, Listed> &copies) {
  c10::OptionalDeviceGuard guard(where.device());
  for (size_t set = 0; set < places.size(); ++set) {
    if (bound != listed.pointers)
      bind(*program->sets[set].grad, set, listed.pointers);
    for (const Stream &stream : program->sets[set].kept) {
      std::string key = stream.key;
      if (stream.role == ALTGRAD_ROLE_BLOCK_SCALE)
        key += "_scale";
      auto to = copies.find(key);
      if (to != copies.end() && boundCopies[key] != to->second.pointers)
        bind(stream, set, to->second.pointers);
    }
  }
  bound = listed.pointers;
  for (auto &[key, to] : copies)
    boundCopies[key] = to.pointers;
  values_->send(plan.get());
  check(
      altgrad_run(plan.get(), workspace->get(), bytes, 0, -1, where.stream()));
  where.record(*workspace);
  captured |= where.isCapturing();
  auto result = [&](int32_t role) {
    for (const Scalar &single : program->singles)
      if (single.role == role && single.access == ALTGRAD_OUT)
        return where.isHost() ? at::full({}, values_->number(role), at::kFloat)
                              : values_->tensor(role).clone();
    return Tensor();
  };
  return {norms.defined() ? norms.clone() : result(ALTGRAD_ROLE_NORM),
          result(ALTGRAD_ROLE_FLAG)};
}
