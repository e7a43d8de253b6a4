# The C++ tests, two GoogleTest programs: tconv3d_tests, and tconv3d_compile_tests, whose tests do little but compile GPU
# kernels. NVRTC takes a third longer under AddressSanitizer, which is no help there: that program is for a build
# without it.

find_package(GTest QUIET)
if(NOT GTest_FOUND AND TCONV3D_GTEST_SOURCE)
    set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
    set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
    add_subdirectory(${TCONV3D_GTEST_SOURCE} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    if(NOT TARGET GTest::gtest_main)
        add_library(GTest::gtest_main ALIAS gtest_main)
    endif()
    target_compile_options(gtest PRIVATE -O0)
endif()

# Sets `result` to the compiler of tests/cpp/emulated.hpp, with its options. Its tests call it for every emulated kernel:
# the standard headers of tests/emulator are read once and precompiled, which halves the time of each call. GCC takes
# them only where the options are the same. What -O1 does more than -Og takes longer than it saves: kernels run once.
# A GPU refuses an access to global memory that is not aligned to its size; here the sanitizer does.
function(tconv3d_emulating_compiler result)
    set(compiler ${CMAKE_CXX_COMPILER} -std=c++17 -Og -fno-exceptions -w -pedantic-errors -fsanitize=alignment
        -fno-sanitize-recover=alignment)
    list(JOIN compiler " " command)
    set(${result} ${command} PARENT_SCOPE)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        return()
    endif()
    set(header ${PROJECT_BINARY_DIR}/generated/emulator_headers.hpp)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/emulator/*)
    set(includes "")
    foreach(source IN LISTS sources)
        file(STRINGS ${source} lines REGEX "^#include <")
        list(APPEND includes ${lines})
    endforeach()
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" text)
    file(CONFIGURE OUTPUT ${header} CONTENT "${text}\n" @ONLY)
    add_custom_command(OUTPUT ${header}.gch DEPENDS ${header}
        COMMAND ${compiler} -x c++-header ${header} -o ${header}.gch
        COMMENT "Precompiling the headers of the emulator" VERBATIM)
    target_sources(tconv3d_tests PRIVATE ${header}.gch)
    set(${result} "${command} -include '${header}'" PARENT_SCOPE)
endfunction()

# tconv3d_add_test_program(name folder): of the sources in the folder.
function(tconv3d_add_test_program program folder)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
    add_executable(${program} ${sources})
    target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/cpp ${TCONV3D_SOURCE_FOLDERS})
    target_link_libraries(${program} PRIVATE tconv3d GTest::gtest_main)
    target_compile_definitions(${program} PRIVATE TCONV3D_PROBLEMS="${PROJECT_SOURCE_DIR}/problems")
    tconv3d_compile_options(${program})
    # Most of a test's own code runs once: optimising it takes longer than it saves. Undefined behaviour is looked for in
    # the core, not in the tests.
    target_compile_options(${program} PRIVATE -O0)
    if(TCONV3D_SANITIZE)
        target_compile_options(${program} PRIVATE -fno-sanitize=undefined)
    endif()
    target_precompile_headers(${program} PRIVATE <gtest/gtest.h>)
    add_test(NAME ${program} COMMAND ${program})
endfunction()

if(TARGET GTest::gtest_main)
    tconv3d_add_test_program(tconv3d_tests ${PROJECT_SOURCE_DIR}/tests/cpp)
    tconv3d_add_test_program(tconv3d_compile_tests ${PROJECT_SOURCE_DIR}/tests/compile)
    target_link_libraries(tconv3d_tests PRIVATE tconv3d_fitting)
    # This one compares whole tensors. Headers that are precompiled without optimisation are not for it.
    set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/cpp/implementations_test.cpp PROPERTIES
        COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)

    # The emulator's device is the same for all kernels: it is compiled once.
    add_library(tconv3d_emulator_device OBJECT ${PROJECT_SOURCE_DIR}/tests/emulator/device.cpp
        ${PROJECT_SOURCE_DIR}/tests/emulator/shared_memory.cpp)
    # Fibers jump from stack to stack, which a fortified longjmp refuses.
    target_compile_options(tconv3d_emulator_device PRIVATE -O2 -U_FORTIFY_SOURCE)
    add_dependencies(tconv3d_tests tconv3d_emulator_device)
    tconv3d_emulating_compiler(emulating_compiler)
    # What runs programs for another processor runs the emulated kernels too.
    list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " runner)
    target_compile_definitions(tconv3d_tests PRIVATE
        TCONV3D_KERNELS="${PROJECT_SOURCE_DIR}/src/cuda/kernels" TCONV3D_EMULATOR="${PROJECT_SOURCE_DIR}/tests/emulator"
        TCONV3D_EMULATOR_DEVICE="$<JOIN:$<TARGET_OBJECTS:tconv3d_emulator_device>, >" TCONV3D_CXX="${emulating_compiler}"
        TCONV3D_RUNNER="${runner}" TCONV3D_MADE_UP_GPU="$<TARGET_FILE:tconv3d_made_up_gpu>")
    add_library(tconv3d_made_up_gpu MODULE ${PROJECT_SOURCE_DIR}/tests/made_up_gpu/gpu.cpp)
    set_target_properties(tconv3d_made_up_gpu PROPERTIES CXX_VISIBILITY_PRESET default)
    tconv3d_compile_options(tconv3d_made_up_gpu)
    add_dependencies(tconv3d_tests tconv3d_made_up_gpu)
else()
    message(WARNING "C++ tests skipped: GoogleTest not found (install it, or set TCONV3D_GTEST_SOURCE)")
endif()
