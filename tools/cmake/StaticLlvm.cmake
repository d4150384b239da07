# altgrad_mlir from archives. Debian's MLIR and LLD archives name libLLVM.so, some libMLIR.so too:
# their link interfaces are rewritten to the LLVM components below.

# Spelled out: `x86` alone would become -lLLVMx86.
llvm_map_components_to_libnames(llvm_archives
  passes linker bitwriter irreader option lto dtlto windowsdriver
  nvptxcodegen nvptxdesc nvptxinfo x86codegen x86asmparser x86desc x86info)
add_library(altgrad_llvm INTERFACE)
target_link_libraries(altgrad_llvm INTERFACE ${llvm_archives})

get_property(mlir_targets GLOBAL PROPERTY MLIR_ALL_LIBS)
list(REMOVE_ITEM mlir_targets MLIR)
foreach(target IN LISTS mlir_targets ITEMS lldELF lldCommon)
  if(TARGET ${target})
    get_target_property(interface ${target} INTERFACE_LINK_LIBRARIES)
    if(interface)
      list(TRANSFORM interface REPLACE "^LLVM$" "altgrad_llvm")
      list(TRANSFORM interface REPLACE "libzstd_shared" "libzstd_static")
      list(REMOVE_ITEM interface MLIR)
      set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${interface}")
    endif()
  endif()
endforeach()

# LLVMSupport names libz3, which it never calls, and zstd's shared library.
get_target_property(interface LLVMSupport INTERFACE_LINK_LIBRARIES)
list(FILTER interface EXCLUDE REGEX "libz3")
list(TRANSFORM interface REPLACE "libzstd_shared" "libzstd_static")
set_target_properties(LLVMSupport PROPERTIES INTERFACE_LINK_LIBRARIES "${interface}")

# codegen/emit/UnusedTargets.cpp stands in for Polly, which LLD's optimiser names and no package above has.
set_target_properties(LLVMExtensions PROPERTIES INTERFACE_LINK_LIBRARIES LLVMSupport)

target_link_libraries(altgrad_mlir INTERFACE
  MLIRArithDialect MLIRGPUDialect MLIRLLVMDialect MLIRMathDialect MLIRNVVMDialect MLIRSCFDialect
  MLIRVectorDialect MLIRVectorTransforms MLIRParser MLIRTransforms MLIROptLib
  MLIRArithToLLVM MLIRControlFlowToLLVM MLIRMathToLLVM MLIRSCFToControlFlow MLIRVectorToLLVM
  MLIRTargetLLVM MLIRTargetLLVMIRExport MLIRBuiltinToLLVMIRTranslation MLIRGPUToLLVMIRTranslation
  MLIRLLVMToLLVMIRTranslation MLIRNVVMToLLVMIRTranslation altgrad_llvm)
target_link_options(altgrad_mlir INTERFACE -static-libstdc++ LINKER:--gc-sections LINKER:--as-needed)
if(LLVM_USE_LINKER STREQUAL "lld")
  target_link_options(altgrad_mlir INTERFACE LINKER:--icf=all) # a seventh of the program is the same code again
endif()
