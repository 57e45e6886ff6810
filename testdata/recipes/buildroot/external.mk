include $(sort $(wildcard $(BR2_EXTERNAL_LIGHTMETAL_PATH)/package/*/*.mk))
