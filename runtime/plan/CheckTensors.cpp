// Checks the tensors that a caller declares, alone and beside each other.
#include "Status.h"
#include "plan/Shape.h"
#include "plan/Tensors.h"

#include <algorithm>
#include <tuple>

using namespace altgrad::runtime;

namespace {

constexpr int64_t mostSide = 1 << 15; // a square has 4 GiB then

// Checks one tensor after the other; what it knows of those before is kept.
class Checker {
public:
  Checker(const Manifest &manifest, int64_t ngroups);
  altgrad_status check(int64_t index, const altgrad_tensor &tensor);

private:
  altgrad_status checkElements(const altgrad_tensor &tensor);
  altgrad_status checkBlocks(const altgrad_tensor &tensor);
  altgrad_status checkUnits(const altgrad_tensor &tensor);
  altgrad_status checkGroup(const altgrad_tensor &tensor);
  altgrad_status checkMatrix(const altgrad_tensor &tensor);
  // That a slice begins and ends with one of the runs of so many elements.
  altgrad_status checkCuts(const altgrad_tensor &tensor, int64_t multiple, const char *what);

  const Manifest &manifest;
  // By set: elements of the longest block; of what rows and units are multiples;
  // rows of a tile.
  std::vector<int64_t> blocks, rowMultiples, unitMultiples, tileRows;
  std::vector<int64_t> groupSets; // empty: groups may be of several sets
  int64_t ngroups, elements = 0, set = 0, index = 0;
};

Checker::Checker(const Manifest &manifest, int64_t ngroups) : manifest(manifest), ngroups(ngroups) {
  for (int64_t of = 0; of < manifest.sets; ++of) {
    rowMultiples.push_back(manifest.rowMultiple(of));
    unitMultiples.push_back(manifest.unitMultiple(of));
    tileRows.push_back(manifest.tileRows(of));
    int64_t most = unitMultiples.back();
    for (const Stream &stream : manifest.streams)
      if (stream.set == of && stream.columns)
        most = std::max(most, stream.block);
    blocks.push_back(most);
  }
  for (const Scalar &scalar : manifest.scalars)
    if (scalar.scope == ALTGRAD_PER_GROUP && scalar.set >= 0)
      groupSets.assign(size_t(ngroups), -1);
}

altgrad_status Checker::checkElements(const altgrad_tensor &tensor) {
  if (tensor.numel < 0 || tensor.numel > mostElements || (elements += tensor.numel) > mostElements)
    return fail(ALTGRAD_INVALID, "tensors[%lld].numel is %lld; all together may have 0 to 2^44", (long long)index,
                (long long)tensor.numel);
  const int64_t whole = wholeOf(tensor);
  if (whole < 0 || whole > mostElements)
    return fail(ALTGRAD_INVALID, "tensors[%lld].whole is %lld, not 0 to 2^44", (long long)index, (long long)whole);
  if (tensor.offset < 0 || tensor.offset > whole - tensor.numel)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].offset is %lld: %lld elements from there on are "
                "not within its whole of %lld",
                (long long)index, (long long)tensor.offset, (long long)tensor.numel, (long long)whole);
  Shape shape;
  if (!shapeOf(tensor, shape))
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] has %lld elements, which are no matrices of "
                "%lld rows and %lld columns",
                (long long)index, (long long)whole, (long long)tensor.rows, (long long)tensor.columns);
  return ALTGRAD_OK;
}

altgrad_status Checker::checkCuts(const altgrad_tensor &tensor, int64_t multiple, const char *what) {
  const int64_t end = tensor.offset + tensor.numel;
  for (int64_t cut : {tensor.offset, end})
    if (cut % multiple != 0 && cut != wholeOf(tensor))
      return fail(ALTGRAD_INVALID,
                  "tensors[%lld]%s is %lld, not a multiple of %lld, the "
                  "elements of %s in set %lld",
                  (long long)index, cut == end ? ", end of the slice," : ".offset", (long long)cut, (long long)multiple,
                  what, (long long)tensor.set);
  return ALTGRAD_OK;
}

altgrad_status Checker::checkBlocks(const altgrad_tensor &tensor) {
  Shape shape;
  shapeOf(tensor, shape);
  const size_t of = size_t(tensor.set);
  if (altgrad_status status = checkCuts(tensor, blocks[of], "a block"))
    return status;
  if (shape.allRows() <= 1)
    return ALTGRAD_OK;
  const int64_t multiple = rowMultiples[of];
  if (shape.columns % multiple != 0)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] has rows of %lld elements, not a multiple of "
                "%lld, the elements of a block in set %lld, in a sweep over tiles",
                (long long)index, (long long)shape.columns, (long long)multiple, (long long)tensor.set);
  if (tileRows[of] && shape.columns)
    return checkCuts(tensor, tileRows[of] * shape.columns, "the rows of a block");
  return ALTGRAD_OK;
}

altgrad_status Checker::checkUnits(const altgrad_tensor &tensor) {
  const int64_t whole = wholeOf(tensor);
  if (tensor.units < 0 || (tensor.units > 0 && whole % tensor.units != 0))
    return fail(ALTGRAD_INVALID, "tensors[%lld].units is %lld, not a divisor of its %lld elements", (long long)index,
                (long long)tensor.units, (long long)whole);
  if (!manifest.hasUnits(tensor.set) || tensor.numel == 0)
    return ALTGRAD_OK;
  const Units units = unitsOf(manifest, tensor);
  if (manifest.hasColumns(tensor.set) && (tensor.numel != whole || (tensor.units && tensor.units != units.count)))
    return fail(ALTGRAD_INVALID, "tensors[%lld] %s; set %lld has values per row and per column, of a matrix as a whole",
                (long long)index, tensor.numel != whole ? "is a slice" : "has units that are not its rows",
                (long long)tensor.set);
  if (altgrad_status status = checkCuts(tensor, units.numel, "a unit"))
    return status;
  int64_t block = unitMultiples[size_t(tensor.set)];
  if (units.numel != whole && units.numel % block != 0)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] has units of %lld elements, not a multiple "
                "of %lld, the elements of a block in set %lld",
                (long long)index, (long long)units.numel, (long long)block, (long long)tensor.set);
  return ALTGRAD_OK;
}

altgrad_status Checker::checkGroup(const altgrad_tensor &tensor) {
  if (tensor.group < 0 || tensor.group >= ngroups)
    return fail(ALTGRAD_INVALID, "tensors[%lld].group is %lld, not in [0, %lld)", (long long)index,
                (long long)tensor.group, (long long)ngroups);
  if (groupSets.empty())
    return ALTGRAD_OK;
  int64_t &other = groupSets[size_t(tensor.group)];
  if (other >= 0 && other != tensor.set)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] is of set %lld, but its group %lld has tensors "
                "of set %lld; here a group is of one set",
                (long long)index, (long long)tensor.set, (long long)tensor.group, (long long)other);
  other = tensor.set;
  return ALTGRAD_OK;
}

// Of a set whose matrices are multiplied, each tensor is one, or a stack of them.
altgrad_status Checker::checkMatrix(const altgrad_tensor &tensor) {
  const Phase *phase = manifest.matrixPhase(tensor.set);
  if (!phase || tensor.numel == 0)
    return ALTGRAD_OK;
  if (tensor.offset != 0 || tensor.numel != wholeOf(tensor))
    return fail(ALTGRAD_INVALID, "tensors[%lld] is a slice; phase %s takes matrices as a whole", (long long)index,
                phase->name.c_str());
  const int64_t most = std::max(manifest.hasSquares(tensor.set, Side::Rows) ? tensor.rows : 0,
                                manifest.hasSquares(tensor.set, Side::Columns) ? tensor.columns : 0);
  if (most > mostSide)
    return fail(ALTGRAD_INVALID, "tensors[%lld] has squares of %lld rows, and %lld is the most", (long long)index,
                (long long)most, (long long)mostSide);
  const bool stacks = manifest.units[size_t(tensor.set)] == UnitKind::Matrices;
  const int64_t numel = stacks ? unitsOf(manifest, tensor).numel : tensor.numel;
  if (tensor.rows <= 0 || tensor.columns != numel / tensor.rows || numel % tensor.rows)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] has %lld elements in %lld rows and %lld columns; phase %s takes matrices as a "
                "whole, each a tensor of two dimensions%s",
                (long long)index, (long long)numel, (long long)tensor.rows, (long long)tensor.columns,
                phase->name.c_str(), stacks ? " or a stack of such" : "");
  if (manifest.areTall(tensor.set) && tensor.rows < tensor.columns)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld] has %lld rows and %lld columns; set %lld has an orthonormal basis of the columns, which "
                "are at most as many as the rows: give the transpose",
                (long long)index, (long long)tensor.rows, (long long)tensor.columns, (long long)tensor.set);
  return ALTGRAD_OK;
}

altgrad_status Checker::check(int64_t place, const altgrad_tensor &tensor) {
  index = place;
  if (tensor.set < set || tensor.set >= manifest.sets)
    return fail(ALTGRAD_INVALID,
                "tensors[%lld].set is %lld, not in [%lld, %lld]: tensors come "
                "set by set",
                (long long)index, (long long)tensor.set, (long long)set, (long long)manifest.sets - 1);
  set = tensor.set;
  for (auto part : {&Checker::checkElements, &Checker::checkBlocks, &Checker::checkUnits, &Checker::checkGroup,
                    &Checker::checkMatrix})
    if (altgrad_status status = (this->*part)(tensor))
      return status;
  return ALTGRAD_OK;
}

// Slices of one whole have no element in common: they would draw the same bits.
altgrad_status checkOverlaps(const std::vector<altgrad_tensor> &tensors) {
  struct Slice {
    int64_t tag, offset, index;
    bool operator<(const Slice &other) const { return std::tie(tag, offset) < std::tie(other.tag, other.offset); }
  };
  std::vector<Slice> slices;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (const altgrad_tensor &tensor = tensors[i]; tensor.numel > 0)
      slices.push_back({tagOf(tensor, int64_t(i)), tensor.offset, int64_t(i)});
  if (!std::is_sorted(slices.begin(), slices.end()))
    std::sort(slices.begin(), slices.end());
  for (size_t i = 1; i < slices.size(); ++i) {
    const Slice &before = slices[i - 1], &slice = slices[i];
    const int64_t end = before.offset + tensors[size_t(before.index)].numel;
    if (before.tag == slice.tag && slice.offset < end)
      return fail(ALTGRAD_INVALID,
                  "tensors[%lld] and tensors[%lld] have the tag %lld and "
                  "overlap: one ends at %lld, the other begins at %lld",
                  (long long)before.index, (long long)slice.index, (long long)slice.tag, (long long)end,
                  (long long)slice.offset);
  }
  return ALTGRAD_OK;
}

} // namespace

altgrad_status altgrad::runtime::checkTensors(const Manifest &manifest, const std::vector<altgrad_tensor> &tensors,
                                              int64_t ngroups) {
  Checker checker(manifest, ngroups);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (altgrad_status status = checker.check(int64_t(i), tensors[i]))
      return status;
  return checkOverlaps(tensors);
}
