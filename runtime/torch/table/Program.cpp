// Asks the C ABI what a bundle holds.
#include "table/Program.h"
#include "core/table.h"

#include <c10/util/Exception.h>

using namespace altgrad::optim;
using c10::ScalarType;

namespace {

template <typename Info> [[noreturn]] void refuse(const Info &info) {
  TORCH_CHECK(false, "altgrad: '", info.name, "' of the step has no place in an optimizer");
}

} // namespace

std::string altgrad::optim::formatOf(ScalarType type) {
  const char *format = altgrad_table_format(int32_t(type));
  TORCH_CHECK_TYPE(format, "altgrad: no stream is stored as ", type);
  return format;
}

ScalarType Scalar::scalarType() const {
  constexpr ScalarType types[] = {ScalarType::Double, ScalarType::Long, ScalarType::Float, ScalarType::Int,
                                  ScalarType::Bool};
  return types[type];
}

void Program::readStreams() {
  for (int64_t i = 0; i < altgrad_stream_count(bundle.get()); ++i) {
    altgrad_stream_info info{};
    info.size = sizeof info;
    check(altgrad_stream_at(bundle.get(), i, &info));
    Stream stream{info.name,   info.key, info.role, ScalarType(altgrad_table_stream_dtype(&info)), info.block, info.even != ALTGRAD_UNPACKED,
                  info.columns};
    Set &set = sets.at(size_t(info.set));
    switch (info.role) {
    case ALTGRAD_ROLE_PARAM:
      set.param = stream;
      break;
    case ALTGRAD_ROLE_GRAD:
      set.grad = stream;
      break;
    case ALTGRAD_ROLE_STATE:
    case ALTGRAD_ROLE_MASTER:
    case ALTGRAD_ROLE_COPY:
    case ALTGRAD_ROLE_BLOCK_SCALE:
    case ALTGRAD_ROLE_REMAINDER:
    case ALTGRAD_ROLE_INPUT:
      set.kept.push_back(stream);
      break;
    default:
      refuse(info);
    }
  }
  for (Set &set : sets) {
    TORCH_CHECK(set.grad, "altgrad: a set of the step has no gradient");
    for (const Stream &scale : set.kept)
      for (Stream &of : set.kept)
        if (scale.role == ALTGRAD_ROLE_BLOCK_SCALE && &of != &scale && of.key == scale.key)
          of.scaled = scale.block;
  }
}

void Program::readScalars() {
  for (int64_t i = 0; i < altgrad_scalar_count(bundle.get()); ++i) {
    altgrad_scalar_info info{};
    info.size = sizeof info;
    check(altgrad_scalar_at(bundle.get(), i, &info));
    Scalar scalar{info.name, info.key, info.role, info.access, info.type, {}};
    if (info.has_default)
      scalar.byDefault = info.value;
    if (info.scope == ALTGRAD_PER_STEP) {
      singles.push_back(scalar);
      continue;
    }
    bool ofSet = info.set >= 0 || sets.size() == 1;
    Set &set = sets.at(size_t(std::max(info.set, 0)));
    if (info.role == ALTGRAD_ROLE_HYPER && ofSet && info.scope == ALTGRAD_PER_GROUP)
      set.hypers.push_back(scalar);
    else if (info.role == ALTGRAD_ROLE_STEP && ofSet && info.scope == ALTGRAD_PER_TENSOR &&
             (info.type == ALTGRAD_F32 || info.type == ALTGRAD_I64))
      set.step = scalar;
    else if (info.role == ALTGRAD_ROLE_TENSOR_SCALE && ofSet && info.scope == ALTGRAD_PER_TENSOR &&
             info.type == ALTGRAD_F32)
      set.kept.push_back({scalar.name, scalar.key, scalar.role, c10::kFloat, /*block=*/0});
    else if (info.role == ALTGRAD_ROLE_STATE && ofSet && info.scope == ALTGRAD_PER_UNIT && info.type == ALTGRAD_F32)
      set.kept.push_back({scalar.name, scalar.key, scalar.role, c10::kFloat, /*block=*/0});
    else if (info.role == ALTGRAD_ROLE_STATISTIC && ofSet && info.scope == ALTGRAD_PER_TENSOR &&
             info.type == ALTGRAD_F32)
      set.statistics.push_back(scalar);
    else if (info.role == ALTGRAD_ROLE_NORM && ofSet && info.scope == ALTGRAD_PER_TENSOR && info.type == ALTGRAD_F32)
      set.norm = scalar;
    else
      refuse(info);
  }
}

Program::Program(std::shared_ptr<altgrad_bundle> given) : bundle(std::move(given)) {
  sets.resize(size_t(altgrad_set_count(bundle.get())));
  readStreams();
  readScalars();
  for (size_t set = 0; set < sets.size(); ++set)
    sets[set].places = altgrad_has_places(bundle.get(), int64_t(set));
  for (int64_t i = 0; i < altgrad_phase_count(bundle.get()); ++i) {
    altgrad_phase_info info{};
    info.size = sizeof info;
    check(altgrad_phase_at(bundle.get(), i, &info));
    if (info.kind == ALTGRAD_MATRIX)
      for (size_t set = 0; set < sets.size(); ++set)
        sets[set].multiplies |= info.set < 0 || size_t(info.set) == set;
  }
  for (int64_t i = 0; i < altgrad_exchange_count(bundle.get()); ++i) {
    altgrad_exchange_info info{};
    info.size = sizeof info;
    check(altgrad_exchange_at(bundle.get(), i, &info));
    Exchange exchange{info.phase, {}};
    for (int64_t word = 0; word < info.words; ++word) {
      altgrad_exchange_word at{};
      at.size = sizeof at;
      check(altgrad_exchange_word_at(bundle.get(), i, word, &at));
      exchange.words.push_back({at.offset, at.reduction});
    }
    exchanges.push_back(std::move(exchange));
  }
}

const char *altgrad::optim::targetsFor(bool onHost) {
  return onHost ? "--target=x86-64-v3,x86-64-v4" : "--target=sm_80,sm_90";
}

std::shared_ptr<const Program> altgrad::optim::compileProgram(const std::string &options, const std::string &text,
                                                              const std::string &compiler) {
  altgrad_bundle *bundle = nullptr;
  check(altgrad_compile(text.empty() ? nullptr : text.data(), text.size(), options.c_str(),
                        compiler.empty() ? nullptr : compiler.c_str(), &bundle));
  return std::make_shared<Program>(std::shared_ptr<altgrad_bundle>(bundle, altgrad_bundle_free));
}
