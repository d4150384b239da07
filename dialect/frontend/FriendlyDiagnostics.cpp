// Sentences of MLIR ==> where, what, and what to write.
#include "dialect/frontend/FriendlyDiagnostics.h"

#include "dialect/Arithmetic.h"
#include "dialect/Dialect.h"
#include "dialect/SpellCheck.h"
#include "dialect/frontend/ReadSpec.h"
#include "dialect/frontend/RuleText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

using namespace mlir;
using namespace altgrad;

static StringRef firstWord(StringRef text) {
  return text.take_while([](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
}

namespace {
// A sentence of MLIR's, and the text around the place that it is about.
struct Mistake {
  StringRef words;  // of MLIR
  StringRef above;  // from the beginning of the text
  StringRef before; // on the same line
  StringRef after;  // to the end of the text
  bool inRule;      // and not in a step, whose sweeps have codes and vectors, too

  StringRef line() const { return after.split('\n').first; }
  bool contains(StringRef part) const { return words.contains(part); }
  // What stands in the nth quotes of the sentence.
  StringRef quoted(unsigned n = 0) const {
    SmallVector<StringRef> parts;
    words.split(parts, '\'');
    return 2 * n + 1 < parts.size() ? parts[2 * n + 1] : "";
  }
  // What stands behind it, after blanks.
  StringRef next() const { return line().ltrim(); }
  StringRef nextWord() const { return firstWord(next()); }
  // The operation that it is said of, without a dialect that need not be written.
  StringRef operation() const {
    StringRef name = quoted();
    name.consume_front("arith.");
    return name;
  }
};
} // namespace

static bool isNumeral(char c) { return llvm::isAlnum(c) || c == '.' || c == '-' || c == '+'; }

static constexpr StringRef typeWords[] = {"f32", "f64", "i64", "i1", "bf16", "f16"};
static constexpr char types[] = "types are f32, f64, i64 and i1";
static constexpr char yields[] =
    "the last operation is written altgrad.yield param(%w1) state(%m1, %v1), with a state for each "
    "of the rule's; state() where it has none";

// Sentences that need nothing of the text, by a part of MLIR's.
static constexpr StringLiteral lastIsMissing =
    "the last operation is missing: a rule ends with altgrad.yield param(%w1) state(...), a step with commit";
static constexpr std::pair<StringLiteral, StringLiteral> sentences[] = {
    {"block with no terminator", lastIsMissing},
    {"expect at least a terminator", lastIsMissing},
    {"expected integer number of results", "write = behind the name, without a colon"},
    {"expected valid '@'-identifier", "a name that begins with @ is expected here, as in altgrad.rule @mine("},
    {"invalid block name", "a rule has no labels; leave this out"},
    {"integer constant out of range",
     "the number has no room in its type: an i64 is below 2^63, and an i1 is true or false"},
    {"floating point value not valid for specified type",
     "the constant in front of this has a point, and its type is that of whole numbers; write f32 or f64, or leave the "
     "point out"},
    {"expected floating point literal", "a finite number is expected here, such as 1.0e-3"},
    {"to bind", "an operation has one result: write one name in front of ="},
    {"cannot name an operation with no results", "an operation is missing behind =, as in %c = addf %a, %b : f32"},
    {"expected '=' after SSA name",
     "= and an operation stand behind the name of a value, as in %c = addf %a, %b : f32"},
};

// "math.fma is written %c = math.fma %w, %g, %m : f32; its types are f32, f64" of the line's operation.
static std::string describeSyntax(const Mistake &mistake) {
  std::string whole = (mistake.before + mistake.line()).str();
  StringRef line = StringRef(whole).trim();
  if (line.starts_with("altgrad.yield") || line.contains("= altgrad.yield"))
    return yields;
  if (line.starts_with("%"))
    line = line.split('=').second.ltrim();
  line = firstWord(line);
  line.consume_front("arith.");
  for (const AllowedOperation &op : allowedOperations()) {
    StringRef name = op.name;
    name.consume_front("arith.");
    if (name != line)
      continue;
    StringRef example = op.example; // its last line
    return (name + " is written " + example.substr(example.rfind('\n') + 1) + "; its types are " + op.types).str();
  }
  return "";
}

// "write 0.9" of ".9", "1.0e-8" of "1e-8"; "" where no number is meant.
static std::string describeNumber(const Mistake &mistake) {
  StringRef from = mistake.before.take_back(mistake.before.size() - mistake.before.find_last_not_of(".0123456789") - 1);
  std::string text = (from + mistake.line().take_while(isNumeral)).str();
  StringRef number(text);
  if (!llvm::any_of(number, llvm::isDigit))
    return "";
  auto [digits, power] = number.split('e');
  std::string right = (digits.starts_with(".") ? "0" : "") + digits.str();
  if (!digits.contains('.'))
    right += ".0";
  if (digits.ends_with("."))
    right += "0";
  if (!power.empty())
    right += "e" + power.str();
  double value;
  if (StringRef(right).getAsDouble(value) || right == text)
    return "";
  return "'" + text + "' is no number here: digits stand on both sides of the point; write " + right;
}

// An operation that is in no dialect, or a line that begins with something else.
static std::string describeUnknownOperation(const Mistake &mistake) {
  StringRef name = mistake.words.split("custom op '").second.split('\'').first;
  StringRef rest = mistake.line().drop_front(std::min(name.size(), mistake.line().size())).ltrim();
  if (name == "e" || (name.starts_with("e") && llvm::all_of(name.drop_front(), llvm::isDigit)))
    if (std::string number = describeNumber(mistake); !number.empty())
      return number;
  if (StringRef(mistake.before).contains("altgrad.yield"))
    return yields;
  if (llvm::is_contained(typeWords, name))
    return (": stands in front of a type: write : " + name).str();
  if (rest.starts_with("="))
    return ("the name of a value begins with %: write %" + name + " =").str();
  if (!rest.empty() && StringRef("+-*/<>").contains(rest[0]) && !rest.starts_with("-"))
    return ("'" + rest.take_front(1) + "' is no operation; write addf, subf, mulf, divf or cmpf").str();
  if (mistake.contains("tried 'builtin."))
    return ("'" + name + "' begins neither a rule nor a step; write altgrad.rule @name(...) {").str();
  SmallVector<StringRef> ours;
  for (const AllowedOperation &op : allowedOperations()) {
    ours.push_back(op.name);
    if (StringRef(op.name).starts_with("arith."))
      ours.push_back(StringRef(op.name).drop_front(6));
  }
  ours.append({"altgrad.rule", "altgrad.step", "altgrad.yield"});
  StringRef meant = closestSpelling(name, ours);
  std::string hint = describeReplacement(name);
  if (!meant.empty() && StringRef(hint).starts_with("; altgrad-opt"))
    hint = "; did you mean " + meant.str() + "? altgrad-opt --list-ops lists what is allowed";
  return ("'" + name + "' is no operation" + hint).str();
}

// A value of one type where another is wanted.
static std::string describeTypeMismatch(const Mistake &mistake) {
  StringRef value = mistake.quoted(0), wanted = mistake.quoted(1), has = mistake.quoted(2);
  if (mistake.inRule && !llvm::is_contained(typeWords, wanted) && !wanted.starts_with("!altgrad"))
    return ("'" + wanted + "' is no type of a rule, which computes one element; " + types).str();
  std::string words = ("'" + value + "' is " + has + " and is used as " + wanted).str();
  if (has == "i1")
    words += ("; choose by it: write select " + value + ", %a, %b : " + wanted).str();
  if (wanted == "i1")
    words += "; an i1 is what cmpf or cmpi gives, and options are i1";
  StringRef cast = has == "f64" && wanted == "f32"           ? "truncf"
                   : has == "f32" && wanted == "f64"         ? "extf"
                   : has == "i64" && wanted.starts_with("f") ? "sitofp"
                                                             : "";
  StringRef reduction = mistake.before.split("altgrad.reduce ").second;
  if (has == "i1" && (reduction.starts_with("count") || reduction.starts_with("and")))
    words = "altgrad.reduce " + firstWord(reduction).str() + " has the type of what is combined: write : i1";
  if (has.starts_with("!altgrad.tensors") && wanted.starts_with("!altgrad.squares"))
    words += "; the first operand of altgrad.product is a square, which altgrad.gram makes of a matrix";
  if (!cast.empty())
    words +=
        ("; write " + value + "_ = " + cast + " " + value + " : " + has + " to " + wanted + ", and " + value + "_ here")
            .str();
  if (cast == "extf")
    words += "; of scalars alone, elements stay f32";
  if (has == "!altgrad.tensors<f32>" && wanted == "!altgrad.reals")
    words += "; f32 is committed as it is: leave out the quantize";
  if (has == "bf16" || has == "f16" || wanted == "bf16" || wanted == "f16")
    words += "; elements are f32 in a rule, and the storage line says formats";
  return words;
}

// What may not begin where an operation is expected.
static std::string describeMissingOperation(const Mistake &mistake) {
  StringRef next = mistake.after.ltrim();
  if (next.drop_front(std::min<size_t>(next.size(), 1)).trim().empty()) // the last character
    return "the text ends before its braces are closed; write }";
  if (next.starts_with("#"))
    return "a comment begins with //, not with #";
  if (next.starts_with("%") || llvm::isDigit(next[0]))
    return "an operation stands behind =, as in %c = addf %a, %b : f32";
  return "an operation is expected here, as in %c = addf %a, %b : f32";
}

static std::string describeMissingValue(const Mistake &mistake) {
  StringRef next = mistake.line().ltrim();
  if (next.starts_with("("))
    return "operands stand without parentheses, as in addf %a, %b : f32";
  if (!next.empty() && (llvm::isDigit(next[0]) || next[0] == '-' || next[0] == '.'))
    return "a number is a value of its own: write %c = constant 0.5 : f32, and %c here";
  StringRef word = next.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (word.empty())
    return "a value is expected here, whose name begins with %";
  return ("the name of a value begins with %: write %" + word).str();
}

// Words of upstream constraints ==> types as they are written.
static std::string abbreviateTypes(StringRef words) {
  std::string text = words.str();
  for (auto [from, to] : {std::pair<StringRef, StringRef>{"32-bit float", "f32"},
                          {"64-bit float", "f64"},
                          {"64-bit signless integer", "i64"},
                          {"16-bit signless integer", "i16"},
                          {"1-bit signless integer", "i1"}})
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  // "'altgrad.commit' op operand #0 must be i1, but got 'f32'".
  auto [op, rest] = StringRef(text).split(" op operand #");
  auto [position, wanted] = rest.split(" must be ");
  auto [kind, got] = wanted.split(", but got ");
  if (got.empty())
    return text;
  unsigned number = 0;
  position.getAsInteger(10, number);
  return (op + " takes " + kind + ", and its operand " + Twine(number + 1) + " is " + got.trim('\'')).str();
}

// What altgrad.reduce has under another name, or not yet.
static constexpr std::pair<StringLiteral, StringLiteral> reductionHints[] = {
    {"mean", "write add, and divf by how many there are, which altgrad.dim says"},
    {"sum", "write add"},
    {"norm", "write sumsq, and math.sqrt of it"},
    {"min", "write max of negf, and negf of it"},
    {"or", "write count, and cmpf ogt with 0.0"},
    {"any", "write count, and cmpf ogt with 0.0"},
    {"all", "write and"},
};

// "expected one of [step, tensor] for how many values a scalar has, got: tensr".
static std::string describeUnknownWord(const Mistake &mistake) {
  auto [known, got] = mistake.words.split('[').second.split(']');
  SmallVector<StringRef> words;
  known.split(words, ", ");
  StringRef word = mistake.line().take_while(llvm::isAlnum);
  if (got.contains("got: "))
    word = got.split("got: ").second;
  else if (word.empty())
    word = mistake.line().take_front(1);
  if (mistake.operation() == "altgrad.reduce")
    for (auto [name, instead] : reductionHints)
      if (word == name)
        return "altgrad.reduce has no '" + word.str() + "'; " + instead.str();
  if (mistake.operation() == "altgrad.reduce" && mistake.inRule)
    llvm::erase(words, "step");
  std::string who = mistake.operation().empty() ? "there is" : (mistake.operation() + " has").str();
  return (Twine(who) + " no '" + word + "'" + describeChoices(word, words)).str();
}

// Where a bracket or a comma of a rule's signature, or of altgrad.yield, is missing.
static std::optional<std::string> describeMissingBracket(const Mistake &mistake) {
  if (mistake.before.contains("altgrad.yield") || mistake.contains("custom op 'altgrad.yield'"))
    return yields;
  if (mistake.words == "expected '{' to begin a region")
    return "the operations of a rule stand in braces: write { behind its arguments";
  StringRef next = mistake.next();
  if (mistake.words != "expected ')'")
    return std::nullopt;
  if (next.starts_with(":"))
    return "a default stands behind =, as in hyper %lr: f64 = 1.0e-3";
  if (std::optional<Role> role = symbolizeRole(mistake.nextWord()); role && llvm::is_contained(ruleRoles, *role))
    return "arguments are separated by commas: write , in front of '" + mistake.nextWord().str() + "'";
  if (next.empty() || next.starts_with("{"))
    return "a parenthesis is not closed: write )";
  return std::nullopt;
}

static std::string describeMissingNumber(const Mistake &mistake) {
  std::string whole = (mistake.before + mistake.line()).str();
  if (!StringRef(whole).contains("constant"))
    return describeSyntax(mistake);
  StringRef word = mistake.nextWord();
  std::string hint = word == "inf"   ? "; in f32 an infinity is 0x7F800000"
                     : word == "nan" ? "; in f32 a NaN is 0x7FC00000"
                                     : "";
  return "a number is expected here, as in %c = constant 1.0e-3 : f64" + hint;
}

static std::optional<std::string> unlessEmpty(const std::string &words) {
  return words.empty() ? std::nullopt : std::optional(words);
}

// Sentences about one operation of a rule: its operands, its types, its name.
static std::optional<std::string> rephraseOperation(const Mistake &mistake) {
  if (mistake.words == "expected ','" && mistake.before.contains("math.fpowi") && mistake.before.contains(":"))
    return "math.fpowi has two types: write : f64, i64";
  if (mistake.words == "expected ':'" && (mistake.next().starts_with(",") || mistake.next().starts_with("%")))
    if (std::string words = describeSyntax(mistake); !words.empty())
      return words;
  if (mistake.words == "expected ':'" && !mistake.nextWord().empty())
    if (std::string words = describeSyntax(mistake); !words.empty())
      return "'" + mistake.nextWord().str() + "' means nothing here; " + words;
  if (mistake.words == "expected ':'")
    return "a type is missing: write : and f32, f64, i64 or i1";
  if (mistake.contains("expected 'to'"))
    return (mistake.operation() + " has two types: write : f64 to f32").str();
  if (mistake.contains("expected attribute value") || mistake.contains("elements literal must be"))
    return unlessEmpty(describeMissingNumber(mistake));
  if (mistake.operation() == "altgrad.entry" && mistake.contains("altgrad.squares"))
    return "altgrad.entry takes a matrix, and a square has no elements of its own: multiply it with the matrix, "
           "altgrad.product %a, %x";
  if (mistake.contains(" must be ") && !mistake.contains("-like"))
    return abbreviateTypes(mistake.words);
  bool operands = mistake.words == "expected ','" || mistake.contains("cast incompatible") ||
                  mistake.contains("-like, but") || mistake.contains(" operands") ||
                  mistake.words.starts_with("custom op ");
  if (operands)
    if (std::string words = describeSyntax(mistake); !words.empty())
      return words;
  return std::nullopt;
}

// The sentence to say instead; nothing to keep MLIR's, "" to say nothing at all.
static std::optional<std::string> rephrase(const Mistake &mistake) {
  if (mistake.contains("failed to parse Altgrad_") || mistake.contains("failed to parse Altgrad"))
    return "";
  if (mistake.contains("invalid attribute name") && mistake.after.starts_with("#"))
    return "a comment begins with //, not with #";
  if (mistake.contains("three consecutive dots for an ellipsis") ||
      mistake.contains("integer literal for a floating point value"))
    return unlessEmpty(describeNumber(mistake));
  if (mistake.words.starts_with("custom op") && mistake.contains("' is unknown"))
    return describeUnknownOperation(mistake);
  if (mistake.contains("not found for custom op"))
    return describeUnknownOperation(mistake);
  if (mistake.contains("expects different type than prior uses"))
    return describeTypeMismatch(mistake);
  if (mistake.words == "use of undeclared SSA value name")
    return ("'" + mistake.line().take_while([](char c) { return isNumeral(c) || c == '%' || c == '_' || c == '#'; }) +
            "' is not defined above; arguments of the rule and results of operations are")
        .str();
  if (mistake.contains("redefinition of SSA value") || mistake.contains("is already in use"))
    return ("'" + mistake.quoted() + "' is defined twice; give each value a name of its own").str();
  if (mistake.contains("expected operation name in quotes"))
    return describeMissingOperation(mistake);
  if (mistake.contains("expected one of [") || mistake.contains("following enum values"))
    return describeUnknownWord(mistake);
  if (mistake.contains("expected SSA operand"))
    return describeMissingValue(mistake);
  if (mistake.contains("invalid SSA name") || (mistake.words == "expected '('" && mistake.line().starts_with("-")))
    return "a name has letters, digits and underscores";
  if (mistake.contains("unexpected character"))
    return ("'" + mistake.line().take_front(llvm::getNumBytesForUTF8(mistake.line().front())) +
            "' means nothing here; leave it out")
        .str();
  if (mistake.contains("expected non-function type"))
    return ("'" + mistake.line().ltrim().take_while(llvm::isAlnum) + "' is no type; " + types).str();
  if (mistake.contains("undefined symbol alias id"))
    return ("'!" + mistake.quoted() + "' is no type; " + types).str();
  if (mistake.contains("expected '=' after SSA name")) {
    // What is written may stand on a line of its own.
    StringRef value = mistake.above.rsplit("commit").second.trim();
    if (value.starts_with("%") && !value.contains('=') && !llvm::any_of(value, llvm::isSpace))
      return ("commit says when it writes: write commit always " + value + " " +
              mistake.line().split(':').first.trim() + ", or commit if %ok " + value + " where a value decides")
          .str();
  }
  for (auto [part, sentence] : sentences)
    if (mistake.contains(part))
      return sentence.str();
  if (std::optional<std::string> bracket = describeMissingBracket(mistake))
    return bracket;
  return rephraseOperation(mistake);
}

// The text in front of a place on its line, and from there on.
static std::pair<StringRef, StringRef> around(StringRef text, FileLineColLoc loc) {
  for (unsigned line = 1; line < loc.getLine(); ++line)
    text = text.split('\n').second;
  size_t column = std::min<size_t>(loc.getColumn() ? loc.getColumn() - 1 : 0, text.size());
  return {text.take_front(column), text.drop_front(column)};
}

// `getText`: that of a file.
static LogicalResult reword(Diagnostic &diagnostic, function_ref<std::string(StringRef)> getText) {
  auto loc = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  if (!loc || diagnostic.getSeverity() != DiagnosticSeverity::Error)
    return failure();
  std::string text = getText(loc.getFilename());
  if (isShortText(text)) // whose parser has words of its own
    return failure();
  auto [before, after] = around(text, loc);
  std::string words = diagnostic.str();
  StringRef above = StringRef(text).drop_back(after.size());
  bool inRule = above.rfind("altgrad.rule") + 1 >= above.rfind("altgrad.step") + 1; // npos + 1 is 0
  std::optional<std::string> plain = rephrase({words, above, before, after, inRule});
  if (!plain)
    return failure();
  if (plain->empty())
    return success(); // somebody has said it already
  Diagnostic instead(diagnostic.getLocation(), diagnostic.getSeverity());
  instead << *plain;
  for (Diagnostic &note : diagnostic.getNotes())
    if (StringRef(note.str()).contains("prior") || StringRef(note.str()).contains("previously"))
      instead.attachNote(note.getLocation()) << "it is defined here";
  diagnostic = std::move(instead);
  return failure(); // the next handler prints it
}

FriendlyDiagnostics::FriendlyDiagnostics(MLIRContext *context) : ScopedDiagnosticHandler(context) {
  setHandler([this](Diagnostic &diagnostic) {
    return reword(diagnostic, [this](StringRef name) {
      auto [it, isNew] = texts.try_emplace(name);
      return isNew ? it->second = readSpec(name).text : it->second;
    });
  });
}

void altgrad::registerFriendlyDiagnostics(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AltgradDialect *) {
    context->getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
      return reword(diagnostic, [](StringRef name) { return name == "<stdin>" ? "" : readSpec(name).text; });
    });
  });
}
