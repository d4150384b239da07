// Binds tensors once and, while nothing moves, reads only the gradients'
// addresses in a step.
#include "Binding.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/stable/c/shim.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

namespace {

// The status is for a body that throws; no kernel does.
void onTorchThreads(int64_t begin, int64_t end, int64_t grain,
                    void (*body)(int64_t, int64_t, void *), void *context) {
  (void)torch_parallel_for(begin, end, grain, body, context);
}

const RuleParamState *find(const Binding::States &states, const Tensor &param) {
  auto found = states.find(param.unsafeGetTensorImpl());
  return found == states.end()
             ? nullptr
             : static_cast<const RuleParamState *>(found->second.get());
}

// The parts of a TensorImpl that a step reads: storage and autograd in front,
// then sizes, then number of elements, type and flags.
enum Part { front = 16, sizes = 80, flags = sizeof(c10::TensorImpl) - 32 };

void fetch(const c10::TensorImpl *tensor, Part part) {
  __builtin_prefetch(reinterpret_cast<const char *>(tensor) + part);
}

// A loaded state may be narrower than the step stores it, never wider.
bool fits(c10::ScalarType from, c10::ScalarType to) {
  return from == to || (isFloatingType(from) && to == at::kFloat &&
                        c10::elementSize(from) < c10::elementSize(to));
}

void checkState(const RuleParamState &state, const std::string &key,
                c10::ScalarType type, at::IntArrayRef sizes,
                const Place &place) {
  const Tensor &value = state.tensor(key);
  std::string names;
  for (auto &[name, other] : state.tensors())
    names += (names.empty() ? "" : ", ") + name;
  TORCH_CHECK(value.defined(), "altgrad: the state of ", toString(place),
              " has no '", key, "' (there are: ", names, ")");
  TORCH_CHECK(value.sizes() == sizes, "altgrad: '", key, "' of ",
              toString(place), " has sizes ", value.sizes(), ", expected ",
              sizes);
  TORCH_CHECK_TYPE(value.layout() == at::kStrided &&
                       fits(value.scalar_type(), type),
                   "altgrad: '", key, "' of ", toString(place), " is ",
                   value.scalar_type(), ", expected ", type);
}

// The state as the step wants it in memory.
Tensor asBound(const Tensor &value, const Tensor &like, c10::ScalarType type) {
  if (value.scalar_type() == type && value.device() == like.device() &&
      hasLayoutOf(like, value))
    return value;
  return at::empty_like(like, like.options().dtype(type)).copy_(value);
}

Tensor fresh(const Stream &stream, const Tensor &param) {
  auto options = param.options().dtype(stream.type);
  if (stream.role == Role::Master)
    return param.detach().to(stream.type, false, /*copy=*/true);
  return stream.role == Role::Copy ? at::empty_like(param, options)
                                   : at::zeros_like(param, options);
}

} // namespace

const std::shared_ptr<const Program> &
Binding::program(const std::string &options, c10::ScalarType type) {
  auto found = programs.find({options, type});
  if (found == programs.end())
    found =
        programs.emplace(std::pair(options, type), compile(spec, options, type))
            .first;
  return found->second;
}

const std::vector<Hyper> &Binding::hypers() const {
  return programs.begin()->second->hypers;
}

void Binding::take(const Groups &groups, States &states,
                   const std::vector<std::string> &options) {
  if (!bound || options != boundOptions || states.size() != boundStates ||
      !gather(groups))
    bind(groups, states, options);
}

// Where the step reads a gradient.
const void *Binding::pointerTo(Slot &slot, const Tensor &grad) {
  c10::TensorImpl &g = *grad.unsafeGetTensorImpl();
  bool plain = slot.contiguous && g.is_contiguous() && g.dtype() == slot.type &&
               g.sizes() == slot.plan->sizes[slot.row] && g.device().is_cpu() &&
               g.layout() == at::kStrided && !grad.is_neg() &&
               !grad._is_zerotensor();
  if (!plain) {
    const Tensor &param = slot.plan->params[slot.row];
    checkGradient(param, grad, slot.plan->places[slot.row]);
    if (!hasLayoutOf(param, grad)) {
      copies.push_back(at::empty_like(param).copy_(grad));
      return copies.back().const_data_ptr();
    }
  }
  const void *data = g.data();
  if (data != slot.grad) {
    written.checkApart(data, grad.nbytes(), slot.plan->places[slot.row]);
    slot.grad = data;
  }
  return data;
}

bool Binding::gather(Slot &slot, const Tensor &grad) {
  if (grad.defined() != (slot.plan != nullptr))
    return false;
  if (!slot.plan)
    return true;
  c10::TensorImpl &param = *slot.param;
  bool same =
      slot.data == param.data() && slot.type == param.dtype() &&
      slot.numel == param.numel() &&
      (slot.contiguous ? param.is_contiguous()
                       : param.strides() == slot.plan->strides[slot.row]);
  if (same)
    slot.plan->grads[slot.row] = pointerTo(slot, grad);
  return same;
}

bool Binding::sameParameters(const Groups &groups) const {
  auto slot = slots.begin();
  for (size_t group = 0; group < groups.size(); ++group)
    for (const Tensor &param : groups[group].params()) {
      if (slot == slots.end() || slot->group != group ||
          slot->param != param.unsafeGetTensorImpl())
        return false;
      ++slot;
    }
  return slot == slots.end();
}

// False when this is not what was bound. A step streams through the caches, so
// the next one finds every tensor's bookkeeping far away: it is fetched block
// by block, one indirection after the other.
bool Binding::gather(const Groups &groups) {
  copies.clear();
  if (!sameParameters(groups))
    return false;
  constexpr size_t block = 32;
  const Tensor *grads[block];
  for (size_t begin = 0; begin < slots.size(); begin += block) {
    Slot *slot = &slots[begin];
    size_t left = slots.size() - begin, count = std::min(left, block);
    for (size_t i = begin == 0 ? 0 : block; i < std::min(left, 2 * block); ++i)
      fetch(slot[i].param, front);
    for (size_t i = 0; i < count; ++i) {
      __builtin_prefetch(slot[i].param->autograd_meta());
      __builtin_prefetch(
          slot[i].param->unsafe_storage().unsafeGetStorageImpl());
      fetch(slot[i].param, flags);
    }
    for (size_t i = 0; i < count; ++i) {
      grads[i] = &slot[i].param->grad();
      for (Part part : {front, sizes, flags})
        fetch(grads[i]->unsafeGetTensorImpl(), part);
    }
    for (size_t i = 0; i < count; ++i)
      __builtin_prefetch(grads[i]
                             ->unsafeGetTensorImpl()
                             ->unsafe_storage()
                             .unsafeGetStorageImpl());
    for (size_t i = 0; i < count; ++i)
      if (!gather(slot[i], *grads[i]))
        return false;
  }
  return true;
}

// Every parameter with a gradient to a row of the plan for its type and its
// group's options.
void Binding::sort(const Groups &groups,
                   const std::vector<std::string> &options) {
  std::map<std::shared_ptr<const Program>, Plan *> byProgram;
  for (size_t group = 0; group < groups.size(); ++group)
    for (size_t index = 0; index < groups[group].params().size(); ++index) {
      const Tensor &param = groups[group].params()[index];
      Place place{group, index};
      Slot slot{param.unsafeGetTensorImpl()};
      slot.group = uint32_t(group);
      if (param.grad().defined()) {
        checkParameter(param, place);
        checkGradient(param, param.grad(), place);
        auto &use = program(options[group], param.scalar_type());
        Plan *&plan = byProgram[use];
        if (!plan) {
          plans.push_back(std::make_unique<Plan>());
          plan = plans.back().get();
          plan->program = use;
        }
        slot.plan = plan;
        slot.row = uint32_t(plan->params.size());
        // A tensor that shares its memory with others copies it here.
        slot.data = param.mutable_data_ptr();
        slot.type = param.dtype();
        slot.numel = param.numel();
        slot.contiguous = param.is_contiguous();
        plan->sizes.emplace_back(param.sizes());
        plan->strides.push_back(slot.contiguous ? std::vector<int64_t>()
                                                : param.strides().vec());
        plan->params.push_back(param);
        plan->places.push_back(place);
      }
      slots.push_back(slot);
    }
  for (auto &plan : plans)
    plan->grads.resize(plan->params.size());
}

void Binding::checkStates(const States &states) {
  for (auto &plan : plans)
    for (size_t row = 0; row < plan->params.size(); ++row) {
      const Tensor &param = plan->params[row];
      const Place &place = plan->places[row];
      written.add(param, place, "");
      const RuleParamState *state = find(states, param);
      if (!state)
        continue;
      for (const Stream &stream : plan->program->streams)
        if (!stream.key.empty()) {
          checkState(*state, stream.key, stream.type, param.sizes(), place);
          written.add(state->tensor(stream.key), place, stream.key);
        }
      if (const std::string &key = plan->program->stepKey; !key.empty()) {
        const Tensor &count = state->tensor(key);
        checkState(*state, key,
                   count.defined() ? count.scalar_type() : at::kLong, {},
                   place);
        written.add(count, place, key);
      }
    }
}

void Binding::makeStates(States &states) {
  for (auto &plan : plans)
    for (const Tensor &param : plan->params) {
      auto &slot = states[param.unsafeGetTensorImpl()];
      bool begins = !slot;
      if (begins)
        slot = std::make_unique<RuleParamState>();
      auto &state = static_cast<RuleParamState &>(*slot);
      for (const Stream &stream : plan->program->streams)
        if (!stream.key.empty())
          state.tensor(stream.key, begins ? fresh(stream, param)
                                          : asBound(state.tensor(stream.key),
                                                    param, stream.type));
      const Program &program = *plan->program;
      if (!program.stepKey.empty())
        state.tensor(
            program.stepKey,
            begins
                ? at::zeros({}, program.stepType)
                : state.tensor(program.stepKey).to(at::kCPU, program.stepType));
    }
}

void Binding::fill(Plan &plan, const States &states, size_t groups) {
  const Program &program = *plan.program;
  size_t rows = plan.params.size();
  altgrad_plan *handle = nullptr;
  check(altgrad_plan_create(program.bundle.get(), "cpu", &handle));
  plan.handle.reset(handle);
  check(altgrad_set_parallel_for(handle, onTorchThreads));

  std::vector<altgrad_tensor> tensors;
  for (size_t row = 0; row < rows; ++row)
    tensors.push_back({sizeof(altgrad_tensor), plan.params[row].numel(), 0, 0,
                       0, int64_t(plan.places[row].group), 0, -1});
  check(altgrad_bind_tensors(handle, tensors.data(), int64_t(rows),
                             int64_t(groups)));

  std::vector<void *> pointers(rows);
  auto takeStates = [&](const std::string &key) {
    for (size_t row = 0; row < rows; ++row) {
      const Tensor &param = plan.params[row];
      const Tensor &value = find(states, param)->tensor(key);
      plan.held.push_back(value);
      written.add(value, plan.places[row], key);
      pointers[row] = value.mutable_data_ptr();
    }
  };
  for (const Stream &stream : program.streams) {
    if (stream.role == Role::Grad)
      continue;
    if (stream.role == Role::Param)
      for (size_t row = 0; row < rows; ++row)
        pointers[row] = plan.params[row].mutable_data_ptr();
    else
      takeStates(stream.key);
    check(altgrad_bind_stream(handle, stream.name.c_str(), pointers.data(),
                              int64_t(rows)));
  }
  if (!program.step.empty()) {
    takeStates(program.stepKey);
    check(altgrad_bind_scalar(handle, program.step.c_str(), pointers.data(),
                              int64_t(rows)));
  }
  size_t count = program.hypers.size();
  plan.hypers.resize(groups * count);
  pointers.resize(groups);
  for (size_t i = 0; i < count; ++i) {
    for (size_t g = 0; g < groups; ++g)
      pointers[g] = &plan.hypers[g * count + i];
    check(altgrad_bind_scalar(handle, program.hypers[i].name.c_str(),
                              pointers.data(), int64_t(groups)));
  }
  if (spec.max_grad_norm()) {
    void *maxNorm = &plan.maxNorm, *norm = &plan.norm;
    check(altgrad_bind_scalar(handle, "max_norm", &maxNorm, 1));
    check(altgrad_bind_scalar(handle, "norm", &norm, 1));
  }
  constexpr uint64_t line = 64;
  check(altgrad_workspace(handle, &plan.bytes));
  plan.memory = at::empty({int64_t(plan.bytes + line)}, at::kByte);
  auto address = reinterpret_cast<uintptr_t>(plan.memory.mutable_data_ptr());
  plan.workspace = reinterpret_cast<void *>((address + line - 1) & ~(line - 1));
}

void Binding::bind(const Groups &groups, States &states,
                   const std::vector<std::string> &options) {
  bound = false;
  plans.clear();
  slots.clear();
  written.clear();
  sort(groups, options);
  checkStates(states);
  written.close();
  gather(groups);
  // Nothing is refused from here on.
  makeStates(states);
  written.clear();
  for (auto &plan : plans) {
    fill(*plan, states, groups.size());
    for (size_t row = 0; row < plan->params.size(); ++row)
      written.add(plan->params[row], plan->places[row], "");
  }
  written.close();
  boundOptions = options;
  boundStates = states.size();
  bound = true;
}
