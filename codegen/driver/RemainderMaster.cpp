// A master whose upper half is the parameter: two lists of 16 bits.
#include "codegen/driver/SetWriter.h"

using namespace mlir;
using namespace altgrad;

static constexpr StringLiteral partTypes =
    "!altgrad.tensors<bf16>, !altgrad.tensors<int16>";

// The parameter is the upper half of its master, and rounded as that is split.
LogicalResult SetWriter::checkRemainder() {
  if (formatOf("param") != "bf16")
    return error() << "storage 'master=bf16+i16' of a parameter in "
                   << formatOf("param") << "; the upper half of an f32 is a bf16";
  if (words.count("param"))
    return error() << "storage 'master=bf16+i16' says how '"
                   << "param' is rounded, and so does its own word";
  return success();
}

bool SetWriter::splitsMaster() const {
  return formats.lookup("master") == remainderMaster;
}

// The master that the parameter and its remainder are together.
std::string SetWriter::takeRemainder(const Named &param) {
  remainder = named("remainder");
  stream("inout", "remainder", remainder, "!altgrad.tensors<int16>");
  std::string name = "%" + param.name;
  text.line(name + ".old = join " + name + ", %" + remainder.name + " : " +
            partTypes);
  return name + ".old";
}

void SetWriter::storeParts(const Named &param) {
  std::string name = "%" + param.name, rest = "%" + remainder.name;
  text.line(name + ".code, " + rest + ".code = split " + name + ".new : " +
            partTypes);
  text.writes.push_back(name + ".code to " + name + " : !altgrad.tensors<bf16>");
  text.writes.push_back(rest + ".code to " + rest +
                        " : !altgrad.tensors<int16>");
}
