# Fitting the GPU's cost models: a library that the tests use too, and the program of tools/fit-cost-model.

add_library(tconv3d_fitting STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/fit/constants.cpp
    ${PROJECT_SOURCE_DIR}/tools/fit/descent.cpp ${PROJECT_SOURCE_DIR}/tools/fit/samples.cpp)
target_include_directories(tconv3d_fitting PUBLIC ${PROJECT_SOURCE_DIR}/tools ${TCONV3D_SOURCE_FOLDERS})
target_link_libraries(tconv3d_fitting PUBLIC tconv3d)
tconv3d_compile_options(tconv3d_fitting)

if(TCONV3D_BUILD_FIT)
    add_executable(tconv3d_fit ${PROJECT_SOURCE_DIR}/tools/fit/main.cpp)
    target_link_libraries(tconv3d_fit PRIVATE tconv3d_fitting)
    tconv3d_compile_options(tconv3d_fit)
endif()
