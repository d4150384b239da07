// Asks the C ABI what a bundle holds, once.
#include "Program.h"
#include "Errors.h"
#include "altgrad_core.h"

#include <cstring>
#include <set>

using namespace altgrad::core;

namespace {

constexpr const char *roleWords[] = {"none",
#define ALTGRAD_ROLE(word, WORD) #word,
                                     ALTGRAD_ROLES(ALTGRAD_ROLE)
#undef ALTGRAD_ROLE
};

template <typename Entry> [[noreturn]] void refuse(const Entry &of) {
  throw Refusal(ALTGRAD_BROKEN, std::string("the step needs a ") + roleWords[of.role] + " '" + of.key +
                                    "', which no optimizer can give it");
}

bool isBeside(int32_t role) {
  return role == ALTGRAD_ROLE_STATE || role == ALTGRAD_ROLE_MASTER || role == ALTGRAD_ROLE_COPY ||
         role == ALTGRAD_ROLE_BLOCK_SCALE || role == ALTGRAD_ROLE_REMAINDER || role == ALTGRAD_ROLE_INPUT;
}

// Its scales have the key of the list that they are of.
void findScales(std::vector<altgrad_core_stream> &states) {
  for (const altgrad_core_stream &scale : states)
    for (altgrad_core_stream &of : states)
      if (scale.role == ALTGRAD_ROLE_BLOCK_SCALE && &of != &scale && !strcmp(of.key, scale.key))
        of.scaled = scale.block;
}

} // namespace

void Program::readStreams(altgrad_bundle *bundle) {
  for (int64_t i = 0; i < altgrad_stream_count(bundle); ++i) {
    const auto of = describe<altgrad_stream_info>(altgrad_stream_at, bundle, i);
    const bool packed = of.even != ALTGRAD_UNPACKED;
    const altgrad_core_stream stream{of.name,
                                     of.key,
                                     roleWords[of.role],
                                     of.format,
                                     of.role,
                                     of.set,
                                     altgrad_core_stream_dtype(&of),
                                     of.block,
                                     of.columns,
                                     packed,
                                     1,
                                     0,
                                     of.per_column ? int32_t(ALTGRAD_OF_COLUMNS)
                                     : of.square   ? ALTGRAD_OF_COLUMNS + of.square
                                                   : int32_t(ALTGRAD_OF_ELEMENTS),
                                     0,
                                     nullptr};
    const auto index = size_t(of.set);
    if (isBeside(of.role)) {
      lists[index].states.push_back(stream);
      continue;
    }
    if (of.role != ALTGRAD_ROLE_PARAM && of.role != ALTGRAD_ROLE_GRAD)
      refuse(of);
    streams.push_back(stream);
    (of.role == ALTGRAD_ROLE_PARAM ? sets_[index].param : sets_[index].grad) = &streams.back();
  }
  for (Lists &set : lists)
    findScales(set.states);
}

void Program::give(const altgrad_core_scalar &scalar, int32_t scope, size_t index) {
  const bool number = scalar.type == ALTGRAD_F32, ofTensor = scope == ALTGRAD_PER_TENSOR;
  const bool isState = scalar.role == ALTGRAD_ROLE_STATE, ofUnits = isState && scope == ALTGRAD_PER_UNIT;
  Lists &set = lists[index];
  if (scalar.role == ALTGRAD_ROLE_HYPER && (scope == ALTGRAD_PER_GROUP || scope == ALTGRAD_PER_STEP))
    set.hypers.push_back(scalar);
  else if ((number && (ofUnits || (ofTensor && scalar.role == ALTGRAD_ROLE_TENSOR_SCALE))) || (ofTensor && isState))
    set.states.push_back({scalar.name, scalar.key, scalar.word, "f32", scalar.role, int32_t(index),
                          altgrad_core_scalar_dtype(scalar.type), 0, 0, 0, 1, ofUnits ? 1 + sets_[index].columns : 0, 0,
                          scalar.value, nullptr});
  else if (number && ofTensor && scalar.role == ALTGRAD_ROLE_STATISTIC)
    set.statistics.push_back(scalar);
  else if (ofTensor && scalar.role == ALTGRAD_ROLE_STEP && (number || scalar.type == ALTGRAD_I64))
    sets_[index].step = &scalars.emplace_back(scalar);
  else if (number && ofTensor && scalar.role == ALTGRAD_ROLE_NORM)
    sets_[index].norm = &scalars.emplace_back(scalar);
  else
    refuse(scalar);
}

void Program::readScalars(altgrad_bundle *bundle) {
  for (int64_t i = 0; i < altgrad_scalar_count(bundle); ++i) {
    const auto of = describe<altgrad_scalar_info>(altgrad_scalar_at, bundle, i);
    const altgrad_core_scalar scalar{of.name,   of.key,  roleWords[of.role], of.role, of.set,
                                     of.access, of.type, of.has_default,     of.value};
    if (of.scope == ALTGRAD_PER_STEP && of.role != ALTGRAD_ROLE_HYPER)
      singles_.push_back(scalar);
    else
      for (size_t index = 0; index < sets_.size(); ++index)
        if (of.set < 0 || size_t(of.set) == index)
          give(scalar, of.scope, index);
  }
}

// The scales of a state are behind its key.
void Program::nameStates(size_t index, const Words &keys) {
  std::set<std::string> all;
  auto keep = [&](const std::string &name, const std::string &otherwise, const char *scale) {
    const std::string *key = find(keys, name);
    if (!all.insert(names.emplace_back((key ? *key : otherwise) + scale)).second)
      throw Refusal(ALTGRAD_INVALID, (*scale ? "the scales of '" + name + "'" : "'" + name + "' of the rule") +
                                         " would be kept as '" + names.back() + "', as another state is");
    return names.back().c_str();
  };
  for (altgrad_core_stream &stream : lists[index].states)
    stream.state = keep(stream.key, stream.key, stream.role == ALTGRAD_ROLE_BLOCK_SCALE ? "_scale" : "");
  if (const altgrad_core_scalar *step = sets_[index].step)
    sets_[index].count = keep(step->key, "step", "");
}

void Program::readPhases(altgrad_bundle *bundle) {
  for (int64_t i = 0; i < altgrad_phase_count(bundle); ++i)
    kinds_.push_back(describe<altgrad_phase_info>(altgrad_phase_at, bundle, i).kind);
}

void Program::readSums(altgrad_bundle *bundle) {
  for (int64_t i = 0; i < altgrad_exchange_count(bundle); ++i) {
    const auto of = describe<altgrad_exchange_info>(altgrad_exchange_at, bundle, i);
    std::vector<altgrad_exchange_word> &own = words.emplace_back(size_t(of.words));
    for (size_t word = 0; word < own.size(); ++word) {
      own[word].size = sizeof own[word];
      check(altgrad_exchange_word_at(bundle, i, int64_t(word), &own[word]));
    }
    exchanges_.push_back({of.phase, own.data(), of.words});
  }
  for (int64_t i = 0; i < altgrad_partial_count(bundle); ++i)
    partials_.push_back(describe<altgrad_partial_info>(altgrad_partial_info_at, bundle, i));
  for (int64_t i = 0; i < altgrad_warning_count(bundle); ++i)
    limits_.push_back(describe<altgrad_warning_info>(altgrad_warning_at, bundle, i));
}

Program::Program(altgrad_bundle *bundle, const Words &keys) : altgrad_core_program{} {
  sets_.resize(size_t(altgrad_set_count(bundle)));
  lists.resize(sets_.size());
  for (size_t index = 0; index < sets_.size(); ++index)
    sets_[index].columns = altgrad_has_columns(bundle, int64_t(index));
  readStreams(bundle);
  readScalars(bundle);
  readPhases(bundle);
  readSums(bundle);
  for (size_t index = 0; index < sets_.size(); ++index) {
    altgrad_core_set &set = sets_[index];
    if (!set.grad)
      throw Refusal(ALTGRAD_BROKEN, "set " + std::to_string(index) + " of the step has no gradient");
    nameStates(index, keys);
    const Lists &own = lists[index];
    set.states = {own.states.data(), int64_t(own.states.size())};
    set.hypers = {own.hypers.data(), int64_t(own.hypers.size())};
    set.statistics = {own.statistics.data(), int64_t(own.statistics.size())};
    set.unit_multiple = altgrad_unit_multiple(bundle, int64_t(index));
    set.multiplies = altgrad_multiplies(bundle, int64_t(index)) != 0;
    set.places = altgrad_has_places(bundle, int64_t(index));
  }
  static_cast<altgrad_core_program &>(*this) = {bundle,
                                                sets_.data(),
                                                int64_t(sets_.size()),
                                                {singles_.data(), int64_t(singles_.size())},
                                                exchanges_.data(),
                                                int64_t(exchanges_.size()),
                                                partials_.data(),
                                                int64_t(partials_.size()),
                                                limits_.data(),
                                                int64_t(limits_.size()),
                                                kinds_.data(),
                                                int64_t(kinds_.size())};
}

void altgrad_core_program_free(const altgrad_core_program *program) {
  altgrad_bundle_free(program->bundle);
  delete static_cast<const Program *>(program);
}
