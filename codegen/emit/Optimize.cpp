// LLVM's passes between the IR and the back end.
#include "codegen/emit/Code.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

using namespace altgrad;

// Vectors, unrolled loops and what lies in registers are explicit before, so that these are what -O2 gives
// a kernel, in a third of its time. Without the first one and vector-combine, ptxas orders and spills worse.
static constexpr llvm::StringLiteral pipeline =
    "function(simplifycfg,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,"
    "loop-mssa(loop-rotate,licm),gvn,vector-combine,instcombine<no-verify-fixpoint>,simplifycfg,dce)";

void altgrad::optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PassBuilder builder(&machine);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, pipeline));
  passes.run(module, modules);
}
