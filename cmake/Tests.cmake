# The C++ tests: one GoogleTest program.

find_package(GTest QUIET)
if(NOT GTest_FOUND AND TCONV3D_GTEST_SOURCE)
    set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
    set(BUILD_GMOCK OFF CACHE BOOL "" FORCE)
    add_subdirectory(${TCONV3D_GTEST_SOURCE} ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    if(NOT TARGET GTest::gtest_main)
        add_library(GTest::gtest_main ALIAS gtest_main)
    endif()
endif()

if(TARGET GTest::gtest_main)
    file(GLOB test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cpp/*.cpp)
    add_executable(tconv3d_tests ${test_sources})
    target_include_directories(tconv3d_tests PRIVATE ${TCONV3D_SOURCE_FOLDERS})
    target_link_libraries(tconv3d_tests PRIVATE tconv3d tconv3d_fitting GTest::gtest_main)
    target_compile_definitions(tconv3d_tests PRIVATE
        TCONV3D_PROBLEMS="${PROJECT_SOURCE_DIR}/problems" TCONV3D_KERNELS="${PROJECT_SOURCE_DIR}/src/cuda/kernels"
        TCONV3D_EMULATOR="${PROJECT_SOURCE_DIR}/tests/emulator" TCONV3D_CXX="${CMAKE_CXX_COMPILER}")
    tconv3d_compile_options(tconv3d_tests)
    add_test(NAME tconv3d_tests COMMAND tconv3d_tests)
else()
    message(WARNING "C++ tests skipped: GoogleTest not found (install it, or set TCONV3D_GTEST_SOURCE)")
endif()
