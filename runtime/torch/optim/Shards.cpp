// Parameters that are parts of tensors, of which other ranks have other parts.
#include "optim/Binding.h"
#include "tensors/Errors.h"

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

void Binding::setShard(const Tensor &param, Shard shard) {
  ALTGRAD_CHECK_VALUE(shard.offset >= 0 && shard.offset + param.numel() <= shard.numel(), "altgrad: a part of ",
                      param.numel(), " elements from ", shard.offset, " on does not lie in a whole of sizes ",
                      at::IntArrayRef(shard.sizes));
  shards[param.unsafeGetTensorImpl()] = std::move(shard);
  bound = false;
}

const Binding::Shard *Binding::shardOf(const Tensor &param) const {
  const auto found = shards.find(param.unsafeGetTensorImpl());
  return found == shards.end() ? nullptr : &found->second;
}

void Binding::checkShard(const Program &program, const Draft &draft) const {
  const Shard *shard = shardOf(draft.param);
  if (!shard)
    return;
  const Set &set = program.sets[size_t(draft.set)];
  auto check = [&](bool fits, const std::string &why) {
    ALTGRAD_CHECK_VALUE(fits, "altgrad: ", toString(draft.place), " is a part of a tensor of sizes ",
                        at::IntArrayRef(shard->sizes), ", and ", why);
  };
  check(!set.multiplies, "its rule multiplies whole matrices: give them to one rank");
  check(!set.columns, "its rule has values per row and per column of whole matrices: give them to one rank");
  check(!set.unit_multiple, "clip takes a norm of each unit, of which other ranks may have parts");
  check(spec.all_gather() || std::none_of(program.partials.begin(), program.partials.end(),
                                          [&](auto &of) { return of.set == draft.set; }),
        "its step sums over the whole tensor, of which other ranks have parts: give RuleSpec::all_gather");
  const int64_t end = shard->offset + draft.param.numel();
  for (const Stream &stream : entries(set.states)) {
    const std::string name = std::string("'") + stream.key + "'";
    check(!stream.of_units, name + " has a value for each row, of which other ranks may have parts");
    check(stream.role != ALTGRAD_ROLE_TENSOR_SCALE && !stream.columns,
          name + " has scales over rows that other ranks have");
    check(stream.role != ALTGRAD_ROLE_BLOCK_SCALE || !stream.block ||
              (shard->offset % stream.block == 0 && (end % stream.block == 0 || end == shard->numel())),
          name + " has blocks of " + std::to_string(stream.block) + " elements, which the part cuts: cut between them");
  }
}
