// The module level of PTX: directives, variables, entry signatures.
#include "Parser.h"

#include "SoftFloat.h"

#include <sstream>

using namespace ptx;

std::string TokenCursor::word(const char *what) {
  if (peek().kind != Token::Word)
    failNext(std::string("expected ") + what);
  return take().text;
}

uint64_t TokenCursor::integer(const char *what) {
  if (peek().kind != Token::Integer)
    failNext(std::string("expected ") + what);
  return take().value;
}

unsigned ptx::typeBits(TokenCursor &cursor, const std::string &type) {
  static const std::map<std::string, unsigned> bits = {
      {".pred", 1}, {".b8", 8},   {".u8", 8},   {".s8", 8},     {".b16", 16},
      {".u16", 16}, {".s16", 16}, {".f16", 16}, {".bf16", 16},  {".b32", 32},
      {".u32", 32}, {".s32", 32}, {".f32", 32}, {".f16x2", 32}, {".bf16x2", 32},
      {".b64", 64}, {".u64", 64}, {".s64", 64}, {".f64", 64}};
  auto it = bits.find(type);
  if (it == bits.end())
    cursor.fail("unknown type '" + type + "'");
  return it->second;
}

namespace {

/// Alignments are powers of two, so that rounding up is safe.
uint64_t alignmentValue(TokenCursor &c) {
  uint64_t n = c.integer("an alignment");
  if (n == 0 || (n & (n - 1)) || n > 4096)
    c.fail("alignment " + std::to_string(n) + " is not a small power of two");
  return n;
}

void appendInitial(TokenCursor &c, unsigned bits, std::vector<uint8_t> &out) {
  /// Addresses of other variables as initial values are refused with the rest.
  bool negative = c.accept("-");
  const Token &t = c.take();
  uint64_t value = t.value;
  if (t.kind == Token::Float64 && bits == 32)
    value = soft::convert(F64, F32, value, Rounding::NearestEven, false);
  else if (t.kind != Token::Integer && t.kind != Token::Float32 &&
           t.kind != Token::Float64)
    throw ParseError(t.line, "initialiser '" + t.text + "' is not a number");
  if (negative)
    value = t.kind == Token::Integer ? uint64_t(0) - value
                                     : value ^ (uint64_t(1) << (bits - 1));
  for (unsigned i = 0; i < bits / 8; ++i)
    out.push_back(uint8_t(value >> (8 * i)));
}

class ModuleParser {
public:
  ModuleParser(const std::vector<Token> &tokens, Module &module)
      : c(tokens), module(module) {}

  void run() {
    while (c.peek().kind != Token::End)
      item();
    if (module.version.empty())
      throw ParseError(c.peek().line, "no .version directive");
    if (module.target.empty())
      throw ParseError(c.peek().line, "no .target directive");
  }

private:
  void item() {
    std::string word = c.word("a directive");
    if (word == ".version") {
      module.version = c.take().text;
    } else if (word == ".target") {
      module.target = c.word("a target");
      while (c.accept(","))
        c.word("a target");
    } else if (word == ".address_size") {
      if (c.integer("an address size") != 64)
        c.fail("only 64-bit addresses are supported");
      // Anything not understood ends the parse: there is no skipping.
    } else if (word == ".visible" || word == ".weak" || word == ".common") {
      // Linkage says nothing about execution.
    } else if (word == ".extern") {
      if (!c.is(".shared"))
        c.fail("'.extern' is refused but for dynamic shared memory");
    } else if (word == ".entry") {
      entry();
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      variable(word);
    } else if (word == ".file") {
      while (c.peek().kind == Token::Integer ||
             c.peek().kind == Token::String || c.is(","))
        c.take();
    } else if (word == ".func") {
      c.fail("'.func' is refused: kernels may not call");
    } else {
      c.fail("unknown directive '" + word + "'");
    }
  }

  void variable(const std::string &space) {
    unsigned line = c.peek().line;
    Declaration d = parseDeclaration(c);
    if (variables.count(d.name))
      throw ParseError(line, "variable '" + d.name + "' is declared twice");
    if (space == ".shared") {
      if (!d.isUnsized)
        sharedEnd = alignUp(sharedEnd, d.alignment);
      variables[d.name] = {
          Space::Shared,
          d.isUnsized ? DynamicSharedBase : SharedBase + sharedEnd, d.bytes};
      sharedEnd += d.bytes;
      return;
    }
    bool isGlobal = space == ".global";
    // Module variables get addresses in the order of the text.
    uint64_t &end = isGlobal ? globalEnd : constEnd;
    end = alignUp(end + 64, d.alignment); // a gap, so that overruns show
    uint64_t address = (isGlobal ? ModuleGlobalBase : ConstBase) + end;
    Space where = isGlobal ? Space::Global : Space::Const;
    variables[d.name] = {where, address, d.bytes};
    // PTX: module variables without an initialiser start as zero.
    d.initial.resize(d.bytes);
    module.variables.push_back(
        {d.name, where, address, std::move(d.initial), {}});
    end += variables[d.name].bytes;
  }

  void parameter(Kernel &k) {
    c.expect(".param");
    uint64_t stated = 0;
    if (c.accept(".align"))
      stated = alignmentValue(c);
    unsigned bytes = typeBits(c, c.word("a type")) / 8;
    // Notes about the pointee; the checker finds out for itself.
    if (c.accept(".ptr")) {
      for (const char *space : {".global", ".const", ".shared", ".local"})
        c.accept(space);
      if (c.accept(".align")) // of what it points to
        alignmentValue(c);
    }
    Parameter p;
    p.name = c.word("a parameter name");
    p.bytes = bytes;
    uint64_t alignment = stated ? stated : bytes;
    if (c.accept("[")) {
      p.bytes *= c.integer("a size");
      c.expect("]");
    }
    if (bytes == 0 || p.bytes == 0 || p.bytes > 32764)
      c.fail("parameter '" + p.name + "' has a size of " +
             std::to_string(p.bytes) + " bytes");
    // The layout of a C struct, which is what launches pass.
    p.offset = alignUp(k.parameterBytes, alignment);
    k.parameterBytes = p.offset + p.bytes;
    k.parameters.push_back(p);
  }

  void entryDirectives(Kernel &k) {
    while (!c.is("{")) {
      std::string word = c.word("'{' or an entry directive");
      if (word == ".maxntid" || word == ".reqntid") {
        auto &limit = word == ".maxntid" ? k.maxThreads : k.exactThreads;
        // Missing dimensions are 1.
        limit = {1, 1, 1};
        for (unsigned i = 0; i < 3; ++i) {
          limit[i] = uint32_t(c.integer("a number of threads"));
          if (!c.accept(","))
            break;
        }
      } else if (word == ".minnctapersm" || word == ".maxnreg" ||
                 word == ".maxclusterrank") {
        c.integer("a number");
      } else if (word == ".noreturn") {
      } else {
        c.fail("unknown entry directive '" + word + "'");
      }
    }
  }

  void entry() {
    auto kernel = std::make_unique<Kernel>();
    kernel->name = c.word("a kernel name");
    if (module.kernels.count(kernel->name))
      c.fail("kernel '" + kernel->name + "' is defined twice");
    if (c.accept("(") && !c.accept(")")) {
      do
        parameter(*kernel);
      while (c.accept(","));
      c.expect(")");
    }
    entryDirectives(*kernel);
    // Module-level shared variables come first in every kernel.
    kernel->sharedBytes = sharedEnd;
    parseBody(c, *kernel, variables);
    std::string name = kernel->name;
    module.kernels[name] = std::move(kernel);
  }

  TokenCursor c;
  Module &module;
  Variables variables;
  uint64_t sharedEnd = 0, globalEnd = 0, constEnd = 0;
};

} // namespace

Declaration ptx::parseDeclaration(TokenCursor &c) {
  Declaration d;
  uint64_t stated = 0;
  if (c.accept(".align"))
    stated = alignmentValue(c);
  unsigned bits = typeBits(c, c.word("a type"));
  if (bits < 8)
    c.fail("a variable cannot be a predicate");
  d.name = c.word("a variable name");
  d.bytes = bits / 8;
  d.alignment = stated ? stated : bits / 8;
  while (c.accept("[")) {
    if (c.accept("]")) {
      d.isUnsized = true;
      d.bytes = 0;
      break;
    }
    uint64_t count = c.integer("a size");
    if (count == 0 || count > (uint64_t(1) << 28) / d.bytes)
      c.fail("'" + d.name + "' has an unreasonable size");
    d.bytes *= count;
    c.expect("]");
  }
  if (c.accept("=")) {
    if (c.accept("{")) {
      do
        appendInitial(c, bits, d.initial);
      while (c.accept(","));
      c.expect("}");
    } else {
      appendInitial(c, bits, d.initial);
    }
    if (d.initial.size() > d.bytes)
      c.fail("'" + d.name + "' has more initial values than elements");
  }
  c.expect(";");
  return d;
}

std::unique_ptr<Module> ptx::parseModule(const std::string &text) {
  auto module = std::make_unique<Module>();
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    module->sourceLines.push_back(line);
  std::vector<Token> tokens = tokenize(text);
  ModuleParser(tokens, *module).run();
  return module;
}
