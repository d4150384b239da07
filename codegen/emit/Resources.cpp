// Registers are numbers that are live at once: how many, LLVM's optimized code shows. Which of them ptxas moves apart
// or computes again, nobody says; tests/gpumodel/test_registers.py has the error of this count.
#include "codegen/emit/Code.h"

#include "altgrad/bundle.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/FormatVariadic.h"

using namespace altgrad;
using namespace llvm;

namespace {
// A vector is as many registers as it has words, which live and die one by one, as in PTX.
class Liveness {
public:
  explicit Liveness(Function &kernel) : layout(kernel.getDataLayout()) {
    for (Instruction &op : instructions(kernel))
      number(op);
    liveIn.assign(kernel.size(), BitVector(weights.size()));
    for (auto [index, block] : enumerate(kernel))
      blocks[&block] = index;
    while (propagate(kernel))
      ;
  }
  unsigned most = 0;

private:
  // What needs no register: a flag is in a predicate, an address with a fixed distance in the access.
  static bool isFree(const Instruction &op) {
    auto *address = dyn_cast<GetElementPtrInst>(&op);
    Type *type = op.getType();
    return type->isVoidTy() || type->getScalarType()->isIntegerTy(1) || isa<AllocaInst>(op) ||
           (address && address->hasAllConstantIndices());
  }

  unsigned getBits(Type *type) const { return layout.getTypeSizeInBits(type->getScalarType()); }
  static unsigned getLanes(Type *type) {
    auto *vector = dyn_cast<FixedVectorType>(type);
    return vector ? vector->getNumElements() : 1;
  }

  void number(Instruction &op) {
    if (isFree(op) || op.getType()->isStructTy())
      return;
    unsigned bits = getBits(op.getType()), weight = bits == 64 ? 2 : 1;
    unsigned count = divideCeil(getLanes(op.getType()) * bits, 32 * weight);
    words[&op] = {unsigned(weights.size()), count};
    weights.append(count, weight);
  }

  // The words of a value that an operation with `lanes` of it needs; all of them without.
  void add(BitVector &live, Value *value, ArrayRef<int> lanes = {}) {
    while (auto *address = dyn_cast<GetElementPtrInst>(value)) {
      if (!isFree(*address))
        break;
      value = address->getPointerOperand();
    }
    auto it = words.find(value);
    if (it == words.end())
      return;
    auto [first, count] = it->second;
    unsigned inWord = std::max(32 / getBits(value->getType()), 1u);
    if (lanes.empty())
      live.set(first, first + count);
    for (int lane : lanes)
      if (lane >= 0)
        live.set(first + lane / inWord);
  }

  void use(BitVector &live, Instruction &op) {
    if (auto *extract = dyn_cast<ExtractElementInst>(&op))
      if (auto *lane = dyn_cast<ConstantInt>(extract->getIndexOperand()))
        return add(live, extract->getVectorOperand(), int(lane->getZExtValue()));
    if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&op)) {
      int lanes = getLanes(shuffle->getOperand(0)->getType());
      SmallVector<int> operandLanes[2];
      for (int lane : shuffle->getShuffleMask())
        operandLanes[lane >= lanes].push_back(lane < lanes ? lane : lane - lanes);
      for (auto [operand, own] : zip(shuffle->operands(), operandLanes))
        if (!own.empty())
          add(live, operand, own);
      return;
    }
    for (Value *operand : op.operands())
      add(live, operand);
  }

  void remove(BitVector &live, Instruction &op) {
    auto [first, count] = words.lookup(&op);
    live.reset(first, first + count);
  }

  // Once through all blocks, from the last on; whether anything was new.
  bool propagate(Function &kernel) {
    bool grew = false;
    for (BasicBlock *block : post_order(&kernel)) {
      BitVector live(weights.size());
      for (BasicBlock *next : successors(block)) {
        live |= liveIn[blocks[next]];
        for (PHINode &phi : next->phis())
          add(live, phi.getIncomingValueForBlock(block));
      }
      for (Instruction &op : reverse(*block)) {
        count(live, op);
        remove(live, op);
        if (!isa<PHINode>(op))
          use(live, op);
      }
      grew |= liveIn[blocks[block]] != live;
      liveIn[blocks[block]] = live;
    }
    return grew;
  }

  // What is live behind an operation, its result included.
  void count(const BitVector &live, Instruction &op) {
    unsigned sum = 0;
    for (unsigned word : live.set_bits())
      sum += weights[word];
    most = std::max(most, sum);
  }

  const DataLayout &layout;
  DenseMap<Value *, std::pair<unsigned, unsigned>> words; // the first, and how many
  SmallVector<unsigned> weights;                          // registers of a word
  DenseMap<BasicBlock *, unsigned> blocks;
  std::vector<BitVector> liveIn;
};
} // namespace

// The bytes of shared variables that a kernel's code names; a launch brings those of a square's tile.
static unsigned countSharedBytes(Function &kernel) {
  unsigned bytes = 0;
  for (GlobalVariable &variable : kernel.getParent()->globals()) {
    auto isHere = [&](User *user) {
      auto *op = dyn_cast<Instruction>(user);
      return op && op->getFunction() == &kernel;
    };
    SmallVector<User *> users(variable.users());
    for (size_t i = 0; i < users.size(); ++i)
      if (isa<Constant>(users[i]))
        append_range(users, users[i]->users());
    if (variable.getAddressSpace() == 3 && any_of(users, isHere))
      bytes += variable.isDeclaration() ? ALTGRAD_SQUARE_BYTES
                                        : kernel.getDataLayout().getTypeAllocSize(variable.getValueType());
  }
  return bytes;
}

// What ptxas gives a kernel that does hardly anything, and the most that a thread may have; what the threads of a
// multiprocessor share, in parts of 8; and what is left beside the live numbers: of 90 kernels that fitted four blocks
// or not, the first that spills has 67.
static constexpr unsigned leastRegisters = 20, mostRegisters = 255, allRegisters = 65536, spareRegisters = 2;

static unsigned getRegisterLimit(const Resources &one, unsigned blocks) {
  return std::min<unsigned>(alignDown(allRegisters / (one.threads * blocks), 8), mostRegisters);
}

// Live numbers for each register, beyond which a block fewer takes less time than what is on the stack: by the model of
// tests/gpumodel, 1.53 for 80 registers and 1.5 for 128 do not, 1.63 and 1.77 do.
static constexpr double mostOfRegisters = 1.6;

static constexpr StringLiteral blocksName = "nvvm.minctasm";

// How many blocks a sweep leaves room for was told by its streams and sums. Where all that is live has a register
// beside the most blocks, and their shared memory has room, there are as many. Where more would be on the stack than
// the nearest cache serves in time, there is one fewer.
static void chooseBlocks(Function &kernel, Resources &one, const GpuTuning &tuning) {
  one.blocks = kernel.getFnAttributeAsParsedInteger(blocksName, 1);
  unsigned most = tuning.residentBlocks;
  if (!kernel.hasFnAttribute(blocksName))
    return;
  if (one.live + spareRegisters <= getRegisterLimit(one, most) && one.shared <= tuning.sharedBytes)
    one.blocks = std::max(one.blocks, most);
  while (one.blocks > 1 && one.live > mostOfRegisters * getRegisterLimit(one, one.blocks))
    --one.blocks;
  kernel.addFnAttr(blocksName, std::to_string(one.blocks));
}

std::vector<Resources> altgrad::fitResources(Module &module, const GpuTuning &tuning) {
  std::vector<Resources> all;
  for (Function &kernel : module) {
    if (kernel.isDeclaration())
      continue;
    Resources &one = all.emplace_back();
    one.kernel = kernel.getName().str();
    one.threads = ALTGRAD_BLOCK_THREADS;
    one.live = Liveness(kernel).most;
    one.shared = countSharedBytes(kernel);
    for (Instruction &op : instructions(kernel))
      if (auto *stack = dyn_cast<AllocaInst>(&op))
        one.stack += stack->getAllocationSize(kernel.getDataLayout())->getFixedValue();
    chooseBlocks(kernel, one, tuning);
    one.registers = std::clamp(one.live, leastRegisters, getRegisterLimit(one, one.blocks));
  }
  return all;
}

std::string altgrad::writeResources(ArrayRef<Resources> all) {
  std::string text;
  raw_string_ostream out(text);
  for (const Resources &one : all)
    out << formatv("{0}: {1} threads, {2} registers ({3} live), {4} bytes shared, {5} bytes of stack, {6} blocks\n",
                   one.kernel, one.threads, one.registers, one.live, one.shared, one.stack, one.blocks);
  return text;
}
