// What lies beside a parameter: states, master and copy, and the scales of
// blocks.
#include "optim/States.h"
#include "core/altgrad_states.h"
#include "core/altgrad_storage.h"
#include "ops/Blocks.h"
#include "tensors/Checks.h"
#include "tensors/DeviceContext.h"
#include "tensors/Errors.h"
#include "tensors/Objects.h"

#include <ATen/Functions.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <map>

using namespace altgrad::optim;
using at::Tensor;

bool altgrad::optim::isAsStored(const Tensor &value, const Tensor &param, const Stream &stream) {
  return value.scalar_type() == typeOf(stream) &&
         (stream.block != 1 || stream.packed || stream.geometry || hasLayoutOf(param, value));
}

Tensor altgrad::optim::asStored(const Tensor &value, const Tensor &param, const Stream &stream) {
  if (isAsStored(value, param, stream))
    return value;
  return at::empty_like(param, param.options().dtype(typeOf(stream))).copy_(value);
}

Tensor altgrad::optim::createState(const Program &program, int32_t set, size_t index, const Tensor &param,
                                   const altgrad_core_matrices *matrices) {
  altgrad_core_state of;
  const Stream &stream = program.sets[size_t(set)].states.at[index];
  ALTGRAD_CHECK(stream.role != ALTGRAD_ROLE_INPUT, "altgrad: the rule reads '", stream.key,
                "', which the parameter's state has not: put a tensor there before the step");
  checkTable(altgrad_core_new_state(program.description.get(), set, int64_t(index), param.dim(), param.sizes().data(),
                                    param.strides().data(), matrices, &of));
  const size_t dims = size_t(of.dims);
  Tensor made = unwritten(
      at::empty_strided({of.sizes, dims}, {of.strides, dims}, param.options().dtype(c10::ScalarType(of.dtype))));
  return of.copies ? made.copy_(param) : of.first != 0 ? made.fill_(of.first) : made.zero_();
}

// The columns as rows of a matrix that zeros, of which no block is the largest,
// make one of whole blocks.
static void quantizeColumns(const Tensor &param, const Tensor &codes, const Tensor &scales, int64_t block,
                            const std::string &word) {
  if (param.numel() == 0)
    return;
  int64_t rows = rowsOf(param), columns = param.numel() / rows;
  Tensor turned = at::zeros({columns, (rows + block - 1) / block * block}, param.options());
  turned.narrow(1, 0, rows).copy_(param.detach().reshape({rows, columns}).t());
  Tensor found = at::empty_like(turned, codes.options());
  Tensor units = at::empty({columns, turned.size(1) / block}, scales.options());
  quantizeInto(turned, {{"copy", &found}, {"copy_scale", &units}}, word);
  codes.copy_(found.narrow(1, 0, rows).t().reshape(codes.sizes()));
  scales.copy_(units.t());
}

void altgrad::optim::beginCopy(const Set &set, const std::vector<const Tensor *> &kept, const Tensor &param,
                               const std::string &word) {
  const Tensor *from = &param, *columns = nullptr, *columnScales = nullptr;
  int64_t block = 1;
  std::vector<int64_t> rows;
  CopyParts parts;
  for (size_t i = 0; i < entries(set.states).size(); ++i) {
    const Stream &stream = set.states.at[i];
    if (stream.columns > 1)
      rows = {rowsOf(param)};
    if (stream.role == ALTGRAD_ROLE_MASTER)
      from = kept[i];
    else if (stream.role == ALTGRAD_ROLE_TENSOR_SCALE)
      parts[stream.key] = kept[i];
    else if (is(stream.key, "copy"))
      parts[stream.role == ALTGRAD_ROLE_COPY ? "copy" : "copy_scale"] = kept[i];
    else if (is(stream.key, columnsKey)) {
      (stream.role == ALTGRAD_ROLE_COPY ? columns : columnScales) = kept[i];
      block = std::max<int64_t>(block, stream.block);
    }
  }
  if (!parts.count("copy_scale") || (from->numel() == 0 && !parts.at("copy_scale")->numel()))
    return;
  const std::string first = altgrad_core_first_word(word.c_str());
  quantizeInto(from->detach().contiguous().resolve_neg(), std::move(parts), first, std::move(rows));
  if (columns)
    quantizeColumns(*from, *columns, *columnScales, block, first);
}

void altgrad::optim::checkMatrices(const Program &program, int32_t set, const Tensor &param, const ParamIndex &place) {
  if (altgrad_core_check_matrices(program.bundle.get(), set, param.dim(), param.sizes().data(), param.strides().data()))
    C10_THROW_ERROR(ValueError, "altgrad: " + toString(place) + " " + altgrad_core_error());
}

void altgrad::optim::checkFit(const Program &program, int32_t set, const Tensor &param,
                              const altgrad_core_matrices *matrices, const ParamIndex &place) {
  if (altgrad_core_check_fit(program.bundle.get(), set, matrices, param.dim(), param.sizes().data(),
                             param.strides().data()))
    C10_THROW_ERROR(ValueError, "altgrad: " + toString(place) + " " + altgrad_core_error());
}

void altgrad::optim::checkStoredState(const Tensor &value, const Program &program, int32_t set, size_t index,
                                      bool scaled, const Tensor &param, const altgrad_core_matrices *matrices,
                                      const ParamIndex &place) {
  checkStored(value, std::string("'") + program.sets[size_t(set)].states.at[index].state + "' of " + toString(place));
  const int32_t nowhere = value.is_neg() || value._is_zerotensor() ? ALTGRAD_STATE_NOWHERE : 0;
  const int32_t facts = nowhere | (scaled ? ALTGRAD_STATE_SCALED : 0);
  ALTGRAD_CHECK(!altgrad_core_check_state(program.description.get(), set, int64_t(index), handleOf(value), facts,
                                          handleOf(param), param.strides().data(), matrices),
                "altgrad: ", toString(place), ": ", altgrad_core_error());
}
