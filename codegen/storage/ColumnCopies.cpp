// Copies whose blocks are of columns, beside those of rows: the second of the two
// that TransformerEngine keeps of a weight in MXFP8.
#include "codegen/step/SetWriter.h"

using namespace mlir;
using namespace altgrad;

LogicalResult SetWriter::checkColumns(StringRef text, const StorageWord &word) {
  if (!word.both)
    return success();
  auto format = FormatAttr::getNamed(loc.getContext(), word.format);
  if (!isRuled())
    return error() << "storage '" << text
                   << "' says 'both' of a set without a rule; only the sweep of an "
                      "update sees columns";
  if (format.getBytes() != 1)
    return error() << "storage '" << text << "' says 'both' of codes in " << word.format
                   << ", which are wider than a byte";
  if (format.toFormat().canPack())
    return error() << "storage '" << text << "' says 'both' of codes in " << word.format
                   << ", which share bytes";
  if (word.round.value_or(Round::NearestEven) == Round::Stochastic)
    return error() << "storage '" << text
                   << "' says 'both' and 'stochastic'; copies of columns are not "
                      "rounded by draws";
  return success();
}

// The same numbers as in the copy by rows, `value`, each with its column's scale.
void SetWriter::storeColumns(StringRef value) {
  Named columns = named("copy_columns");
  Named scales{text.name("copy_columns_scale" + suffix()), columns.key};
  std::string type = "!altgrad.tensors<ocp.e8m0 per " +
                     std::to_string(columnBlock) + " columns>";
  stream("out", "copy", columns, typeOf("copy"));
  stream("out", "block_scale", scales, type);
  std::string name = "%" + columns.name + ".";
  text.line(name + "next = element " + value);
  text.line(name + "largest = column_max " + name + "next over " +
            Twine(columnBlock) + " : f32");
  std::string scale = powerOfTwo(scales, name + "largest", "copy", type);
  text.line(name + "one = arith.constant 1.0 : f32");
  text.line(name + "inverse = arith.divf " + name + "one, " + scale + " : f32");
  text.line(name + "scaled = arith.mulf " + name + "next, " + name +
            "inverse : f32");
  text.line(name + "list = collect " + name + "scaled : f32 to !altgrad.reals");
  stored(columns, name + "list", "copy", /*scaled=*/true);
  text.writes.push_back("%" + scales.name + ".code to %" + scales.name + " : " +
                        type);
}
