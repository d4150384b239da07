// Kernel bodies: registers and labels in nested scopes, instructions by their
// form's slots.
#include "Names.h"
#include "Parser.h"
#include "Registry.h"
#include "SoftFloat.h"

using namespace ptx;

namespace {

uint64_t maskOf(unsigned bits) {
  return bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
}

constexpr uint64_t MaxRegisters = 1 << 20;

class BodyParser {
public:
  BodyParser(TokenCursor &c, Kernel &kernel, const Variables &outer)
      : c(c), kernel(kernel), variables(outer) {
    for (const Parameter &p : kernel.parameters)
      variables[p.name] = {Space::Param, ParamBase + p.offset, p.bytes};
  }

  void run() {
    c.expect("{");
    while (!c.is("}") || !names.isOutermost())
      statement();
    closing = c.take().line;
    resolveLabels();
  }

private:
  void statement() {
    const Token &t = c.peek();
    if (t.kind == Token::End)
      c.fail("the body of '" + kernel.name + "' is never closed");
    if (c.accept(";"))
      return;
    if (c.accept("{")) {
      if (!names.open())
        c.fail("too many scopes");
    } else if (c.accept("}")) {
      names.close();
    } else if (t.kind == Token::Word && c.is(":", 1)) {
      label();
    } else if (t.kind == Token::Word && t.text[0] == '.') {
      directive();
    } else {
      instruction();
    }
  }

  void label() {
    std::string name = c.take().text;
    c.expect(":");
    // Not code: a table that brx.idx names by its label.
    if (c.accept(".branchtargets")) {
      names.innermost().tables[name] = uint32_t(kernel.branchTables.size());
      kernel.branchTables.emplace_back();
      do
        tableTargets.push_back({uint32_t(kernel.branchTables.size()) - 1,
                                c.word("a label"), names.current(), c.line()});
      while (c.accept(","));
      c.expect(";");
      return;
    }
    // The label stands for the next instruction, which may be the final return.
    bool isNew =
        names.innermost().labels.emplace(name, kernel.code.size()).second;
    if (!isNew)
      c.fail("label '" + name + "' is defined twice");
  }

  void directive() {
    std::string word = c.take().text;
    if (word == ".reg") {
      declareRegisters();
    } else if (word == ".shared" || word == ".local") {
      bool isShared = word == ".shared";
      Declaration d = parseDeclaration(c);
      uint64_t &end = isShared ? kernel.sharedBytes : kernel.localBytes;
      end = alignUp(end, d.alignment);
      variables[d.name] = {isShared ? Space::Shared : Space::Local,
                           (isShared ? SharedBase : LocalBase) + end, d.bytes};
      end += d.bytes;
    } else if (word == ".loc") {
      while (c.peek().kind == Token::Integer)
        c.take();
    } else if (word == ".pragma") {
      while (!c.accept(";"))
        if (c.take().kind == Token::End)
          c.fail("directive is never closed");
    } else {
      c.fail("unknown directive '" + word + "' in a body");
    }
  }

  void declareRegisters() {
    unsigned bits = typeBits(c, c.word("a type"));
    if (bits == 8)
      c.fail("registers of 8 bits do not exist");
    do {
      std::string name = c.word("a register name");
      uint64_t count = 1;
      bool isRange = c.accept("<");
      if (isRange) {
        count = c.integer("a count");
        c.expect(">");
      }
      if (count > MaxRegisters - kernel.registerNames.size())
        c.fail("too many registers");
      for (uint64_t i = 0; i < count; ++i) {
        std::string full = isRange ? name + std::to_string(i) : name;
        RegisterName r{uint32_t(kernel.registerNames.size()), uint8_t(bits)};
        if (!names.innermost().registers.emplace(full, r).second)
          c.fail("register '" + full + "' is declared twice");
        kernel.registerNames.push_back(full);
      }
    } while (c.accept(","));
    c.expect(";");
  }

  Operand registerOperand(const std::string &name, const Slot &slot) {
    const RegisterName *r = names.findRegister(name);
    if (!r)
      c.fail("'" + name + "' is not declared");
    // PTX wants exact sizes; ld, st and cvt alone take wider registers.
    bool fits = r->bits == slot.bits ||
                (slot.mayBeWider && r->bits > slot.bits && r->bits >= 16);
    if (!fits)
      c.fail("register '" + name + "' has " + std::to_string(r->bits) +
             " bits, '" + form->name + "' takes " + std::to_string(slot.bits));
    Operand o;
    o.kind = Operand::Register;
    o.index = r->index;
    o.bits = r->bits;
    o.value = maskOf(r->bits);
    return o;
  }

  Operand number(const Slot &slot, bool negative) {
    const Token &t = c.take();
    Operand o;
    o.kind = Operand::Immediate;
    o.bits = slot.bits;
    o.value = t.value;
    uint64_t sign = uint64_t(1) << (slot.bits - 1);
    if (t.kind == Token::Integer) {
      if (slot.isFloat)
        c.fail("integer '" + t.text + "' where '" + form->name +
               "' takes a float");
      // ptxas would cut the number; a test wants to know.
      if (negative ? t.value > sign : t.value > maskOf(slot.bits))
        c.fail("'" + t.text + "' does not fit " + std::to_string(slot.bits) +
               " bits");
      if (negative)
        o.value = (uint64_t(0) - t.value) & maskOf(slot.bits);
      return o;
    }
    if (t.kind == Token::Float64 && slot.bits == 32 &&
        t.text.find_first_of("dD") == std::string::npos)
      o.value = soft::convert(F64, F32, t.value, Rounding::NearestEven, false);
    else if (slot.bits != (t.kind == Token::Float32 ? 32 : 64))
      c.fail("'" + t.text + "' does not fit '" + form->name + "'");
    if (negative)
      o.value ^= sign;
    return o;
  }

  Operand value(const Slot &slot) {
    bool negative = c.accept("-");
    Token::Kind kind = c.peek().kind;
    bool isNumber = kind == Token::Integer || kind == Token::Float32 ||
                    kind == Token::Float64;
    if (negative && !isNumber)
      c.fail("'-' before '" + c.peek().text + "'");
    if (isNumber && !slot.isDestination)
      return number(slot, negative);
    std::string name = c.word("an operand");
    Operand o;
    if (name == "_" && slot.isDestination) {
      o.kind = Operand::Sink;
      return o;
    }
    if (names.findRegister(name))
      return registerOperand(name, slot);
    auto special = specialRegisters().find(name);
    if (special != specialRegisters().end() && !slot.isDestination) {
      if (slot.bits != 32)
        c.fail("'" + name + "' has 32 bits, '" + form->name + "' takes " +
               std::to_string(slot.bits));
      o.kind = Operand::Special;
      o.index = uint32_t(special->second);
      return o;
    }
    auto variable = variables.find(name);
    if (variable != variables.end() && slot.mayBeAddress) {
      o.kind = Operand::Immediate;
      o.value = variable->second.address;
      return o;
    }
    if (name == "WARP_SZ" && !slot.isDestination) {
      o.kind = Operand::Immediate;
      o.value = 32;
      return o;
    }
    c.fail("'" + name + "' is not declared, or not an operand of '" +
           form->name + "'");
  }

  Operand predicate(const Slot &slot) {
    bool negated = slot.mayNegate && c.accept("!");
    Operand o;
    if (c.peek().kind == Token::Integer && !slot.isDestination) {
      o.kind = Operand::Immediate;
      o.value = c.take().value != 0;
    } else {
      o = value(slot);
    }
    o.negated = negated;
    return o;
  }

  Operand address() {
    c.expect("[");
    Operand o;
    o.bits = 64;
    if (c.peek().kind == Token::Integer) {
      o.kind = Operand::Immediate;
      o.value = c.take().value;
    } else {
      std::string name = c.word("an address");
      if (const RegisterName *r = names.findRegister(name)) {
        Space space = form->traits.space;
        // Only spaces that fit 32 bits have 32-bit addresses.
        bool isNarrow = space == Space::Shared || space == Space::Local ||
                        space == Space::Param || space == Space::Const;
        if (r->bits != 64 && !(r->bits == 32 && isNarrow))
          c.fail("address register '" + name + "' has " +
                 std::to_string(r->bits) + " bits");
        o.kind = Operand::Register;
        o.index = r->index;
        o.bits = r->bits;
      } else if (variables.count(name)) {
        o.kind = Operand::Immediate;
        o.value = variables[name].address;
      } else {
        c.fail("'" + name + "' is not declared");
      }
    }
    if (c.is("+") || c.is("-")) {
      bool negative = c.take().text == "-";
      negative ^= c.accept("-");
      uint64_t offset = c.integer("an offset");
      o.value += negative ? uint64_t(0) - offset : offset;
    }
    c.expect("]");
    return o;
  }

  void operandsOf(const Slot &slot, std::vector<Operand> &out) {
    if (slot.isVector) {
      c.expect("{");
      Slot element = slot;
      element.isVector = false;
      for (unsigned i = 0; i < slot.count; ++i) {
        if (i)
          c.expect(",");
        operandsOf(element, out);
      }
      c.expect("}");
      return;
    }
    switch (slot.kind) {
    case SlotKind::Address:
      out.push_back(address());
      return;
    case SlotKind::Label:
      jumps.push_back({uint32_t(kernel.code.size()), c.word("a label"),
                       names.current(), c.line()});
      return;
    case SlotKind::Table:
      tableUses.push_back({uint32_t(kernel.code.size()),
                           c.word("a branch table"), names.current(),
                           c.line()});
      return;
    case SlotKind::Predicate:
      out.push_back(predicate(slot));
      break;
    default:
      out.push_back(value(slot));
    }
    if (!slot.isPair)
      return;
    // Without the bar the second result goes nowhere.
    Slot second;
    second.kind = SlotKind::Predicate;
    second.bits = 1;
    second.isDestination = true;
    Operand none;
    none.kind = Operand::Sink;
    out.push_back(c.accept("|") ? value(second) : none);
  }

  /// mov is three instructions under one name; the braces tell them apart.
  std::string formName(const std::string &opcode) const {
    if (opcode.compare(0, 4, "mov.") != 0)
      return opcode;
    bool unpacks = c.is("{");
    if (!unpacks && !c.is("{", 2))
      return opcode;
    unsigned count = 1;
    for (size_t i = 0; !c.is("}", i) && c.peek(i).kind != Token::End; ++i)
      count += c.is(",", i);
    if (!unpacks)
      --count; // the comma behind the destination
    return opcode + (unpacks ? " unpack" : " pack") + std::to_string(count);
  }

  void instruction() {
    unsigned line = c.peek().line;
    Operand guard;
    if (c.accept("@")) {
      bool negated = c.accept("!");
      std::string name = c.word("a predicate");
      const RegisterName *r = names.findRegister(name);
      if (!r || r->bits != 1)
        c.fail("'" + name + "' is not a predicate register");
      guard.kind = Operand::Register;
      guard.index = r->index;
      guard.negated = negated;
    }
    std::string opcode = c.word("an opcode");
    std::string name = formName(opcode);
    form = Registry::get().find(name);
    if (!form)
      throw ParseError(line, Registry::get().explainMissing(name));
    // The form knows how many operands of what kind come: nothing is guessed.
    std::vector<Operand> operands;
    bool first = true;
    for (const Slot &slot : *form->slots) {
      if (slot.isOptional && c.is(";")) {
        operands.emplace_back();
        continue;
      }
      if (!first)
        c.expect(",");
      first = false;
      operandsOf(slot, operands);
    }
    c.expect(";");
    append(*form, line, guard, std::move(operands));
  }

  void append(const Form &f, unsigned line, const Operand &guard,
              std::vector<Operand> operands) {
    Instruction i;
    i.form = &f;
    i.run = f.run;
    i.guard = guard;
    i.line = line;
    i.index = uint32_t(kernel.code.size());
    kernel.operandStore.push_back(std::move(operands));
    i.operands = kernel.operandStore.back().data();
    kernel.code.push_back(i);
  }

  void resolveLabels() {
    // Falling off the end returns; a label there needs something to run, too.
    append(*Registry::get().find("ret"), closing, {}, {});
    for (const LabelUse &use : jumps)
      kernel.code[use.where].target = names.resolve(use, &NameScope::labels);
    for (const LabelUse &use : tableUses)
      kernel.code[use.where].target = names.resolve(use, &NameScope::tables);
    for (const LabelUse &use : tableTargets)
      kernel.branchTables[use.where].push_back(
          names.resolve(use, &NameScope::labels));
  }

  TokenCursor &c;
  Kernel &kernel;
  Variables variables;
  Names names;
  unsigned closing = 0;
  const Form *form = nullptr;
  std::vector<LabelUse> jumps, tableUses, tableTargets;
};

} // namespace

void ptx::parseBody(TokenCursor &cursor, Kernel &kernel,
                    const Variables &moduleVariables) {
  BodyParser(cursor, kernel, moduleVariables).run();
}
