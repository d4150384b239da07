// The options of a group and the states of a parameter, and their files.
#include "altgrad/optim.h"
#include "optim/OptionsOf.h"
#include "tensors/Errors.h"

#include <torch/serialize/archive.h>

#include <atomic>
#include <iterator>

using namespace altgrad::optim;
using at::Tensor;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// Every change has a number of its own.
static std::atomic<uint64_t> lastRevision = 0, stateEdits = 0;

//===-- Options --------------------------------------------------------------//

RuleOptions &RuleOptions::hyper(const std::string &name, double value) {
  hypers_[name] = value;
  revision_ = ++lastRevision;
  return *this;
}

double RuleOptions::hyper(const std::string &name) const {
  auto found = hypers_.find(name);
  ALTGRAD_CHECK(found != hypers_.end(), "altgrad: hyper-parameter '", name, "' is not set");
  return found->second;
}

RuleOptions &RuleOptions::option(const std::string &name, bool on) {
  for (auto old = options_.begin(); on && old != options_.end();)
    old = kindOf(*old) == kindOf(name) ? options_.erase(old) : std::next(old);
  if (on)
    options_.insert(name);
  else
    options_.erase(name);
  revision_ = ++lastRevision;
  return *this;
}

RuleOptions &RuleOptions::use_muon(Takes takes, std::optional<double> adamw_lr) {
  takes_ = std::move(takes);
  adamw_lr_ = adamw_lr;
  revision_ = ++lastRevision;
  return *this;
}

double RuleOptions::get_lr() const { return hyper("lr"); }
void RuleOptions::set_lr(const double lr) { hyper("lr", lr); }

void RuleOptions::serialize(OutputArchive &archive) const {
  OutputArchive hypers(archive.compilation_unit());
  for (auto &[name, value] : hypers_)
    hypers.write(name, c10::IValue(value));
  archive.write("hypers", hypers);
  OutputArchive options(archive.compilation_unit());
  for (const std::string &name : options_)
    options.write(name, c10::IValue(true));
  archive.write("options", options);
}

void RuleOptions::serialize(InputArchive &archive) {
  InputArchive hypers, options;
  ALTGRAD_CHECK(archive.try_read("hypers", hypers) && archive.try_read("options", options),
                "altgrad: the file holds another optimizer's options");
  hypers_.clear();
  options_.clear();
  revision_ = ++lastRevision;
  c10::IValue value;
  for (const std::string &name : hypers.keys()) {
    hypers.read(name, value);
    hypers_[name] = value.toDouble();
  }
  for (const std::string &name : options.keys())
    options_.insert(name);
}

//===-- State ----------------------------------------------------------------//

RuleParamState::Edit::Edit() { ++stateEdits; }
RuleParamState::Edit::Edit(const Edit &) { ++stateEdits; }
RuleParamState::Edit &RuleParamState::Edit::operator=(const Edit &) {
  ++stateEdits;
  return *this;
}
RuleParamState::Edit::~Edit() { ++stateEdits; }

uint64_t RuleParamState::edits() { return stateEdits; }

const Tensor &RuleParamState::tensor(const std::string &name) const {
  static const Tensor none;
  auto found = tensors_.find(name);
  return found == tensors_.end() ? none : found->second;
}

RuleParamState &RuleParamState::tensor(const std::string &name, Tensor value) {
  tensors_[name] = std::move(value);
  ++stateEdits;
  return *this;
}

RuleParamState &RuleParamState::count(const std::string &name) {
  count_ = name;
  return *this;
}

void RuleParamState::serialize(OutputArchive &archive) const {
  for (auto &[name, value] : tensors_)
    if (value.defined() && name == count_)
      archive.write(name, c10::IValue(value.item<int64_t>()));
    else if (value.defined())
      archive.write(name, c10::IValue(value));
  if (!count_.empty() && !tensor(count_).defined())
    archive.write(count_, c10::IValue(int64_t(0)));
}

void RuleParamState::serialize(InputArchive &archive) {
  tensors_.clear();
  ++stateEdits;
  c10::IValue value;
  for (const std::string &name : archive.keys()) {
    archive.read(name, value);
    if (value.isInt())
      count(name).tensor(name, at::scalar_tensor(value.toInt(), at::kLong));
    else if (value.isTensor())
      tensors_[name] = value.toTensor();
  }
}
