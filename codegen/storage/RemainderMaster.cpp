// A master whose upper half is the parameter: two lists.
#include "codegen/step/SetWriter.h"

using namespace mlir;
using namespace altgrad;

bool SetWriter::splitsMaster() const {
  return isSplitMaster(formats.lookup("master"));
}

// The parameter is the upper half of its master, and rounded as that is split.
LogicalResult SetWriter::checkRemainder() {
  if (formatOf("param") != "bf16")
    return error() << "storage 'master=" << formats["master"]
                   << "' of a parameter in " << formatOf("param")
                   << "; the upper half of an f32 is a bf16";
  if (words.count("param"))
    return error() << "storage 'master=" << formats["master"]
                   << "' says how 'param' is rounded, and so does its own word";
  return success();
}

std::string SetWriter::typeOfRemainder() {
  return formats["master"] == "bf16+i16" ? "!altgrad.tensors<int16>"
                                         : "!altgrad.tensors<int8>";
}

// The master that the parameter and its remainder are together.
std::string SetWriter::takeRemainder(const Named &param) {
  remainder = named("remainder");
  stream("inout", "remainder", remainder, typeOfRemainder());
  std::string name = "%" + param.name;
  text.line(name + ".old = join " + name + ", %" + remainder.name + " : " +
            typeOf("param") + ", " + typeOfRemainder());
  return name + ".old";
}

void SetWriter::storeParts(const Named &param) {
  std::string name = "%" + param.name, rest = "%" + remainder.name;
  text.line(name + ".code, " + rest + ".code = split " + name +
            ".new : " + typeOf("param") + ", " + typeOfRemainder());
  text.writes.push_back(name + ".code to " + name + " : " + typeOf("param"));
  text.writes.push_back(rest + ".code to " + rest + " : " + typeOfRemainder());
}
