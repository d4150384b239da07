# `cmake --install build --prefix PREFIX`: the runtime, the compiler, the stock rules, the LibTorch optimizers and a
# package for find_package(altgrad). The component `development` is what a wheel adds to what it has anyway.
include(CMakePackageConfigHelpers)

set(package lib/cmake/altgrad)
# The names that users link: altgrad::runtime here, altgrad::torch in the configuration.
set_target_properties(altgrad_rt PROPERTIES EXPORT_NAME runtime)
# Nothing of the build folder is linked dynamically, so what is installed is what was built.
set_target_properties(altgrad_rt altgrad-opt PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS altgrad_rt EXPORT altgrad LIBRARY DESTINATION lib COMPONENT runtime
  INCLUDES DESTINATION include)
install(EXPORT altgrad NAMESPACE altgrad:: FILE altgradTargets.cmake DESTINATION ${package} COMPONENT development)
install(DIRECTORY runtime/include/altgrad DESTINATION include COMPONENT development FILES_MATCHING PATTERN "*.h")
install(TARGETS altgrad-opt RUNTIME DESTINATION bin COMPONENT runtime)
install(DIRECTORY templates/ DESTINATION share/altgrad/templates COMPONENT runtime FILES_MATCHING PATTERN "*.mlir")

if(TARGET altgrad_libtorch)
  # torch is there when it is loaded: no path to it is kept.
  set_target_properties(altgrad_core PROPERTIES EXPORT_NAME core)
  install(TARGETS altgrad_core EXPORT altgrad LIBRARY DESTINATION lib COMPONENT runtime)
  install(TARGETS altgrad_libtorch ARCHIVE DESTINATION lib COMPONENT development)
  install(DIRECTORY runtime/torch/altgrad DESTINATION include COMPONENT development FILES_MATCHING PATTERN "*.h")
  install(FILES tools/cmake/Torch.cmake DESTINATION ${package} COMPONENT development RENAME altgradTorch.cmake)
endif()

configure_package_config_file(tools/cmake/altgradConfig.cmake.in ${PROJECT_BINARY_DIR}/altgradConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/altgradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/altgradConfig.cmake ${PROJECT_BINARY_DIR}/altgradConfigVersion.cmake
  DESTINATION ${package} COMPONENT development)
