// States of one storage as those of another: compiled steps read and write their codes.
#include "core/altgrad_storage.h"
#include "optim/Binding.h"
#include "optim/Request.h"
#include "optim/States.h"
#include "tensors/Errors.h"

#include <ATen/Functions.h>
#include <c10/util/ScopeExit.h>
#include <torch/serialize/archive.h>

#include <cstring>

using namespace altgrad::optim;
using at::Tensor;

// Of `kept`: the numbers into the parameter, or those of the parameter into it.
static constexpr const char *rules = R"(
altgrad.rule @decode(param %w: f32, grad %g: f32, state %kept: f32) {
  altgrad.yield param(%kept) state(%w)
}
altgrad.rule @encode(param %w: f32, grad %g: f32, state %kept: f32) {
  altgrad.yield param(%w) state(%w)
}
)";

// What such a step, of `numbers` in place, leaves in the states.
static RuleParamState stepped(const char *rule, const std::string &storage, const Tensor &numbers,
                              const RuleParamState &given, const RuleSpec &spec) {
  Tensor param = numbers.detach().requires_grad_();
  param.mutable_grad() = at::zeros_like(param);
  RuleOptimizer optimizer({param}, RuleSpec(rule).text(rules).storage(storage).seed(0).compiler(spec.compiler()));
  if (!given.tensors().empty())
    optimizer.state()[param.unsafeGetTensorImpl()] = std::make_unique<RuleParamState>(given);
  optimizer.step();
  return static_cast<RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl()));
}

static std::string wordOfState(const std::string &line, const std::string &key, const Tensor &param) {
  std::string word = wordOf(line, key);
  if (word.empty())
    word = wordOf(line, "states");
  if (word.empty())
    word = wordOf(line, "master").empty() ? "param" : "f32";
  return word != "param" ? word : isSupported(param.scalar_type()) ? formatOf(param.scalar_type()) : "f32";
}

// The numbers of a state in the order of the parameter's memory.
static Tensor decoded(const RuleParamState &state, const std::string &key, const std::string &line, const Tensor &param,
                      const RuleSpec &spec) {
  const Tensor &value = state.tensor(key);
  const std::string word = altgrad_core_state_format(line.c_str(), key.c_str());
  Tensor numbers = at::zeros_like(param, param.options().dtype(at::kFloat));
  if (value.scalar_type() == at::kFloat || (word.empty() && at::isFloatingType(value.scalar_type())))
    return numbers.copy_(value);
  ALTGRAD_CHECK(!word.empty(), "altgrad: the file has '", key, "' of ", value.scalar_type(),
                ", and does not say which format these codes have");
  RuleParamState given;
  given.tensor("kept", value);
  if (const Tensor &scales = state.tensor(key + "_scale"); scales.defined())
    given.tensor("kept_scale", scales);
  const bool isBlocked = word.find(':') != std::string::npos; // whatever the tensor's size is
  stepped("decode", "kept=" + word + (isBlocked ? ",min_size:1" : ""), numbers, given, spec);
  return numbers;
}

// The master that a parameter has in a file, in f32; undefined where it has none.
static Tensor masterOf(const RuleParamState &state, const Tensor &param, const RuleSpec &spec) {
  const Tensor &rest = state.tensor("remainder");
  if (!rest.defined())
    return state.tensor("master");
  RuleParamState given;
  given.tensor("remainder", rest).tensor("kept", at::zeros_like(param, param.options().dtype(at::kFloat)));
  const char *storage = rest.scalar_type() == at::kShort ? "kept=f32 master=bf16+i16" : "kept=f32 master=bf16+i8";
  return stepped("encode", storage, param.detach().clone(), given, spec).tensor("kept");
}

// Puts a master as `word` says into the states; `upper` becomes what the parameter has to be then.
static void putMaster(RuleParamState &state, const std::string &word, const Tensor &master, const Tensor &param,
                      Tensor &upper, const RuleSpec &spec) {
  if (word == "f32") {
    state.tensor("master", master);
  } else if (param.scalar_type() == at::kFloat) { // which is its own master
    upper = master;
  } else {
    upper = at::empty_like(param);
    RuleParamState given;
    const at::ScalarType type = word == "bf16+i16" ? at::kShort : at::kChar;
    given.tensor("kept", master).tensor("remainder", at::zeros_like(param, param.options().dtype(type)));
    state.tensor("remainder", stepped("decode", "kept=f32 master=" + word, upper, given, spec).tensor("remainder"));
  }
}

RuleParamState Binding::transcoded(const RuleParamState &state, const std::string &line, const Tensor &param,
                                   Tensor &upper) const {
  const std::string own = storageLine(), word = wordOf(own, "master"), copy = wordOf(own, "copy");
  const std::set<std::string> keys = keysInFile();
  RuleParamState next;
  next.count(state.count());
  for (auto &[key, value] : state.tensors()) {
    const bool ofMaster = key == "master" || key == "remainder", ofCopy = key.rfind("copy", 0) == 0;
    const bool isScale =
        key.size() > 6 && keys.count(key.substr(0, key.size() - 6)) && key.rfind("_scale") == key.size() - 6;
    if (ofMaster || ofCopy || isScale || !value.defined())
      continue;
    next.tensor(key, value);
    const std::string stored = wordOfState(own, key, param);
    if (!keys.count(key) || (value.sizes() != param.sizes() && !state.tensor(key + "_scale").defined()))
      continue; // a count, or values of rows
    const Tensor numbers = decoded(state, key, line, param, spec);
    if (stored == "f32") {
      next.tensor(key, numbers);
      continue;
    }
    const RuleParamState made =
        stepped("encode", "kept=" + std::string(altgrad_core_first_word(stored.c_str())), numbers, {}, spec);
    for (auto &[name, tensor] : made.tensors())
      next.tensor(key + name.substr(strlen("kept")), tensor);
  }
  Tensor master = masterOf(state, param, spec);
  ALTGRAD_CHECK(!master.defined() || !word.empty(), "altgrad: the file has a master of a parameter of sizes ",
                param.sizes(), ", and the storage names none: add master=f32 or master=bf16+i16");
  if (!word.empty())
    putMaster(next, word, master.defined() ? master : param.detach().to(at::kFloat, false, /*copy=*/true), param, upper,
              spec);
  if (!copy.empty()) {
    const Tensor from = (master.defined() ? master : param).detach().clone();
    const RuleParamState made = stepped("encode", "copy=" + copy, from, {}, spec);
    for (auto &[key, tensor] : made.tensors())
      if (key.rfind("copy", 0) == 0)
        next.tensor(key, tensor);
  }
  return next;
}

Binding::Edits Binding::transcode(torch::serialize::InputArchive &archive, const Groups &groups, States &states) const {
  c10::IValue given;
  const std::string line = archive.try_read("storage", given) ? given.toStringRef() : "";
  Edits edits;
  for (const auto &group : groups)
    for (const Tensor &param : group.params())
      if (const RuleParamState *state = stateOf(states, param)) {
        const Tensor dense = denseOf(param.detach(), {});
        Tensor upper;
        states[param.unsafeGetTensorImpl()] = std::make_unique<RuleParamState>(transcoded(*state, line, dense, upper));
        if (upper.defined())
          edits.emplace_back(param, upper);
      }
  return edits;
}

void altgrad::optim::transcode(torch::serialize::InputArchive &from, RuleOptimizer &to) {
  at::NoGradGuard none;
  to.binding->transcodes = true;
  auto back = c10::make_scope_exit([&] { to.binding->transcodes = false; });
  to.load(from);
}
